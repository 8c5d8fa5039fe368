"""Which Ray does what is asked of a cluster: remote evaluations, and trainings with `executor=ray`."""

from __future__ import annotations

from pydantic import Field

from palaestra.config.base import Frozen


class ClusterConfig(Frozen):
    address: str | None = Field(
        default=None,
        min_length=1,
        description="HOST:PORT of a cluster's head; null: a Ray of one's own, on this machine",
    )
    cpus: int | None = Field(
        default=None, ge=1, description="processors that a Ray of one's own offers; null: those of this machine"
    )
    node_timeout: float = Field(
        default=20.0,
        gt=0,
        allow_inf_nan=False,
        description="seconds without a sign of life until a node is left out and its work is done elsewhere",
    )
    allow_different_code: bool = Field(
        default=False, description="use nodes whose code differs from that of this machine; results record it"
    )
