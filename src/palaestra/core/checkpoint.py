"""What a checkpoint says of itself; the sidecar on disk is this, in YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

TORCH_MODULE = "torch_module"  # in `policy`: the class, as module:Class, of a torch module that only its user can make


@dataclass(frozen=True)
class Checkpoint:
    epoch: int
    agent_step: int
    total_time: float  # seconds of training so far, over all sessions of the run
    run: str  # run id
    run_name: str
    saved_at: float
    policy: dict[str, Any]  # PolicyConfig, enough to build it again
    env: dict[str, Any]  # EnvConfig, enough to make it again
    interface: dict[str, Any]  # EnvInterface as written by contracts.codec
    score: float | None = None  # None: not judged yet; never 0 for "unknown"
    avg_reward: float | None = None  # training return at the time of saving
    seed: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    git_commit: str = ""
    files: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> {size, sha256}
    # of the replay buffers: name in checkpoints/replay/ -> "first row, end row, bytes, sha256"; short, to be read fast
    replay_segments: dict[str, str] = field(default_factory=dict)
    path: Path | None = None  # of the sidecar, once on disk
