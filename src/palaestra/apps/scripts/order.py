"""What the launcher is told: which script, with which words, where its snapshots go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.core.errors import DamagedFile
from palaestra.loggers.wandb_session import choose_mode
from palaestra.rendering.frame_buffer import TRAIN, frame_buffer_path
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config
from palaestra.runs.environment import describe_git
from palaestra.runs.files import read_json, write_json

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
    commit: str = ""  # of the script's checkout, once the run has started

    @property
    def lane(self) -> Path | None:
        return frame_buffer_path(RunDirectory(self.run_directory).id, TRAIN) if self.live_budget else None

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
        return {"PYTHONUNBUFFERED": "1", "WANDB_MODE": choose_mode(self.wandb_mode or "auto"), **_thread_waiting()}


def _thread_waiting() -> dict[str, str]:
    """How long torch's threads spin before they sleep, unless the user has said so.

    By default they never sleep while a small network acts, and keep a core busy that the render process could use. Ten
    thousand turns are some 30 microseconds: the script is as fast and takes a third less processor time.
    """
    is_chosen = any(name in os.environ for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"))
    return {} if is_chosen else {"GOMP_SPINCOUNT": "10000"}


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


def record_checkout(directory: RunDirectory, order: LaunchOrder) -> str:
    """The commit of the script's checkout, and whether it is changed, in environment.json; "" outside of a repository.

    Asked when the script starts: a run that waited in the queue runs what is there then.
    """
    git = describe_git(Path(order.script).parent)
    if directory.environment_file.is_file():
        write_json(directory.environment_file, {**read_json(directory.environment_file), "git": git})
    return "" if git is None else str(git["commit"])


def make_room(directory: RunDirectory, order: LaunchOrder) -> None:
    """Old snapshots go; what the script writes for TensorBoard lands where the run's TensorBoard files are."""
    order.outbox.mkdir(mode=0o700, exist_ok=True)
    for left in order.outbox.iterdir():
        left.unlink()
    link = directory.path / SCRIPT_RUNS
    if not link.exists() and not link.is_symlink():
        link.symlink_to(directory.tensorboard.name, target_is_directory=True)
