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
