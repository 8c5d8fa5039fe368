"""Paths of all files of a run. No other module contains these names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

REPLAY_SEGMENTS = "replay"  # folder in `checkpoints`, made when there are any

# Created with the run, so that writers need not check whether they exist.
SUBDIRECTORIES = (
    "logs",
    "checkpoints",
    "evaluations",
    "tensorboard",
    "tensorboard_eval",
    "videos",
    "replays",
    "artifacts",
)


@dataclass(frozen=True)
class RunDirectory:
    path: Path  # .../runs/<id>, never a link to it

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def request_file(self) -> Path:
        """As asked."""
        return self.path / "request.yaml"

    @property
    def config_file(self) -> Path:
        """As run, complete."""
        return self.path / "config.yaml"

    @property
    def environment_file(self) -> Path:
        return self.path / "environment.json"

    @property
    def journal_file(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.db"

    @property
    def metrics_csv_file(self) -> Path:
        return self.path / "metrics.csv"

    @property
    def status_file(self) -> Path:
        return self.path / "status.json"

    @property
    def manifest_file(self) -> Path:
        return self.path / "manifest.json"

    @property
    def eval_summary_file(self) -> Path:
        return self.path / "eval_summary.json"

    @property
    def queue_file(self) -> Path:
        """Under which terms a daemon has accepted it; only there when one has."""
        return self.path / "queue.json"

    @property
    def monitor_file(self) -> Path:
        """Which processes a daemon's keeper looks after, and how they ended."""
        return self.path / "keeper.json"

    @property
    def monitor_lock_file(self) -> Path:
        return self.path / ".keeper.lock"

    @property
    def lock_file(self) -> Path:
        return self.path / ".lock"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def log_file(self, rank: int = 0) -> Path:
        return self.logs / f"rank_{rank}.log"

    def output_file(self) -> Path:
        """What a worker of the daemon prints."""
        return self.logs / "output.log"

    def earlier_output_file(self) -> Path:
        """The piece before, when it printed too much for one."""
        return self.logs / "output.1.log"

    def monitor_log_file(self) -> Path:
        return self.logs / "keeper.log"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def evaluations(self) -> Path:
        return self.path / "evaluations"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def tensorboard_eval(self) -> Path:
        return self.path / "tensorboard_eval"

    @property
    def videos(self) -> Path:
        return self.path / "videos"

    @property
    def replays(self) -> Path:
        return self.path / "replays"

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    def make(self) -> RunDirectory:
        """The empty tree; readable by its owner only. It must not exist yet."""
        self.path.mkdir(mode=0o700)
        for name in SUBDIRECTORIES:
            (self.path / name).mkdir(mode=0o700)
        return self


def has_only_logs(path: str) -> bool:
    """A rank of a run that another machine leads writes its log there, and nothing else: no run of this machine's."""
    return not os.path.exists(f"{path}/status.json") and os.listdir(path) == ["logs"]  # noqa: PTH110, PTH208  for speed
