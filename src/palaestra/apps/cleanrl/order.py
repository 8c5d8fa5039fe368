"""What the launcher is told: which script, with which words, where its snapshots go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.contracts.errors import DamagedFile
from palaestra.frames.place import TRAIN, lane_path
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config
from palaestra.sinks.wandb_session import choose_mode

if TYPE_CHECKING:
    from pathlib import Path

OUTBOX = ".snapshots"
SCRIPT_RUNS = "runs"  # where CleanRL's scripts put their TensorBoard files


@dataclass(frozen=True)
class LaunchOrder:
    run_directory: Path
    python: str
    script: str
    sha256: str  # as it was when the run was accepted
    argv: tuple[str, ...]
    settings: dict[str, Any]  # complete, as far as they are known
    save_seconds: float
    keep: int
    wandb_mode: str
    start_from: str = ""  # a sidecar
    live_budget: float = 0.0  # 0: it cannot be watched
    started_from: str = ""  # RUN_ID:EPOCH, once it is handed over
    start: dict[str, str] | None = None  # file and hash of the weights to begin with

    @property
    def lane(self) -> Path | None:
        return lane_path(RunDirectory(self.run_directory).id, TRAIN) if self.live_budget else None

    @property
    def outbox(self) -> Path:
        return self.run_directory / OUTBOX

    def for_launcher(self) -> dict[str, Any]:
        return {
            "script": self.script,
            "argv": list(self.argv),
            "save_seconds": self.save_seconds,
            "outbox": str(self.outbox),
            "parent": os.getpid(),
            "lane": None if self.lane is None else str(self.lane),
            "live_budget": self.live_budget,
            "start": self.start,
        }

    def environment(self) -> dict[str, str]:
        """Unbuffered, so that the log is there while it runs. A script that tracks is not stopped by a missing key."""
        return {"PYTHONUNBUFFERED": "1", "WANDB_MODE": choose_mode(self.wandb_mode or "auto")}


def read_order(directory: RunDirectory) -> LaunchOrder:
    config = read_config(directory)
    try:
        return LaunchOrder(
            run_directory=directory.path,
            python=str(config["python"]),
            script=str(config["script"]),
            sha256=str(config["sha256"]),
            argv=tuple(map(str, config["argv"])),
            settings=dict(config["settings"]),
            save_seconds=float(config["save_seconds"]),
            keep=int(config["keep"]),
            wandb_mode=str(config["wandb_mode"]),
            start_from=str(config.get("start_from", "")),
            live_budget=float(config.get("live_budget", 0.0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"{directory.config_file} does not describe a script's run ({error!r}).") from error


def make_room(directory: RunDirectory, order: LaunchOrder) -> None:
    """Old snapshots go; what the script writes for TensorBoard lands where the run's TensorBoard files are."""
    order.outbox.mkdir(mode=0o700, exist_ok=True)
    for left in order.outbox.iterdir():
        left.unlink()
    link = directory.path / SCRIPT_RUNS
    if not link.exists() and not link.is_symlink():
        link.symlink_to(directory.tensorboard.name, target_is_directory=True)
