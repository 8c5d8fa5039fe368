"""How the processes of one training talk to each other; how many there are belongs to the command (`--nproc`)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from palaestra.config.base import Frozen


class DistributedConfig(Frozen):
    backend: Literal["auto", "gloo", "nccl"] = Field(
        default="auto",
        description="auto: shared memory between the ranks of --nproc on CPUs, nccl between CUDA devices, else gloo",
    )
    interface: str = Field(
        default="",
        max_length=64,
        description="network interface of this machine for the ranks' connections, like eth0; "
        "empty: the one through which rank 0 is reached",
    )
    timeout_seconds: float = Field(
        default=300.0,
        gt=0,
        description="a rank that another waits for longer than this fails the run; also the limit for joining",
    )
    peer_timeout_seconds: float = Field(
        default=30.0,
        ge=2.0,
        description="every rank ends within this time after another one died, was stopped or lost its connection",
    )
    restarts: int = Field(
        default=0,
        ge=0,
        description="how often a failed run of --nproc or executor=ray starts again from its last checkpoint; "
        "a newer checkpoint sets the count back to 0",
    )
    allow_different_code: bool = Field(
        default=False,
        description="train also when the ranks have different Palaestra code; the journal records the difference",
    )


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
    share_timeout: float = Field(
        default=600.0,
        ge=5.0,
        allow_inf_nan=False,
        description="seconds in which a worker must end an episode of its share (up to 16) of an evaluation; "
        "else the share is played by another worker and this one is ended",
    )
    allow_different_code: bool = Field(
        default=False,
        description="evaluations and trials use nodes whose code differs from that of this machine; results record it; "
        "ranks: distributed.allow_different_code",
    )
