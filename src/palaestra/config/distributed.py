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
    timeout_seconds: float = Field(
        default=300.0, gt=0, description="a rank that another waits for longer than this fails the run"
    )
