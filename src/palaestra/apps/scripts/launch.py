"""What the launcher is told: which script, with which words, where its snapshots go."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from palaestra.checkpoints.files import model_name
from palaestra.checkpoints.selection import open_checkpoint
from palaestra.checkpoints.targets import find_target
from palaestra.config.base import Frozen
from palaestra.core.child_process import LineReader, end_process
from palaestra.core.errors import DamagedFile, UsageError
from palaestra.loggers.wandb.session import choose_mode
from palaestra.rendering.frame_buffer import TRAIN, frame_buffer_path
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config
from palaestra.runs.environment import describe_git
from palaestra.runs.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.apps.scripts.script import Script
    from palaestra.checkpoints.selection import OpenedCheckpoint

OUTBOX = ".snapshots"
SCRIPT_RUNS = "runs"  # where CleanRL's scripts put their TensorBoard files


@dataclass(frozen=True)
class LaunchSpec:
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
    def frame_buffer(self) -> Path | None:
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
            "frame_buffer": None if self.frame_buffer is None else str(self.frame_buffer),
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


def read_launch_spec(directory: RunDirectory) -> LaunchSpec:
    config = read_config(directory)
    try:
        return LaunchSpec(
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


def record_checkout(directory: RunDirectory, order: LaunchSpec) -> str:
    """The commit of the script's checkout, and whether it is changed, in environment.json; "" outside of a repository.

    Asked when the script starts: a run that waited in the queue runs what is there then.
    """
    git = describe_git(Path(order.script).parent)
    if directory.environment_file.is_file():
        write_json(directory.environment_file, {**read_json(directory.environment_file), "git": git})
    return "" if git is None else str(git["commit"])


def prepare_directory(directory: RunDirectory, order: LaunchSpec) -> None:
    """Old snapshots go; what the script writes for TensorBoard lands where the run's TensorBoard files are."""
    order.outbox.mkdir(mode=0o700, exist_ok=True)
    for left in order.outbox.iterdir():
        left.unlink()
    link = directory.path / SCRIPT_RUNS
    if not link.exists() and not link.is_symlink():
        link.symlink_to(directory.tensorboard.name, target_is_directory=True)


class LaunchConfig(Frozen):
    script: str = Field(default="", description="path of the script; it is run as it is")
    python: str = Field(default="", description="path of the interpreter to run it with; empty: the one of Palaestra")
    save_seconds: float = Field(default=60.0, ge=0, description="between checkpoints; 0: only at the end")
    keep: int = Field(default=5, ge=1, description="how many checkpoints to keep")
    start_from: str = Field(
        default="", description="checkpoint of a run of the same script to begin with: RUN, RUN:best, RUN:EPOCH"
    )
    live_budget: float = Field(
        default=0.011, ge=0, le=1, description="share of the time for pictures while watched; 0: cannot be watched"
    )
    wandb_mode: Literal["", "online", "offline", "disabled"] = Field(
        default="", description="of a script that tracks with W&B; empty: as the machine has it, offline without a key"
    )


OWN_KEYS = tuple(LaunchConfig.model_fields)

START_FILE = Path(__file__).parent / "launcher" / "bootstrap.py"
KILL_SECONDS = 20.0  # after our own end was asked for; the daemon's grace is longer


class Child:
    """The script's process and its messages. A line that its death cut off is dropped."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._reader = LineReader(descriptor)
        self._is_open = True

    def messages(self, seconds: float) -> list[list[Any]]:
        """Those that come within that time; at once when there are some."""
        if not self._is_open or not self._reader.wait(seconds):
            return []
        try:
            return [message for line in self._reader.read() for message in _decode(line)]
        except EOFError:
            self._is_open = False
            return []

    def drain(self) -> list[list[Any]]:
        """What is left in the pipe; processes of its environments may hold it open for longer."""
        found: list[list[Any]] = []
        while more := self.messages(0.0):
            found += more
        return found

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


@contextmanager
def started(order: LaunchSpec) -> Iterator[Child]:
    """In a session of its own, so that Ctrl-C reaches it once and by us; it does not outlive the block."""
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [order.python, str(START_FILE), json.dumps({**order.for_launcher(), "descriptor": writing})],
            cwd=order.run_directory,
            env={**os.environ, **order.environment()},
            pass_fds=(writing,),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(writing)
    child = Child(process, reading)
    try:
        yield child
    finally:
        end_process(process)
        os.close(reading)


def _decode(line: bytes) -> list[list[Any]]:
    try:
        messages = json.loads(line)
    except ValueError:
        return []
    heard = messages if isinstance(messages, list) else []
    return [one for one in heard if isinstance(one, list) and one and isinstance(one[0], str)]


START = "start.safetensors"


def resolve_start_checkpoint(target: str, script: Script, runs_root: Path) -> str:
    """The sidecar of what `target` means now; refused where none of its networks could be of this script."""
    opened = find_target(target, runs_root).open()
    classes = opened.checkpoint.policy.get("classes")
    if not isinstance(classes, dict):
        raise UsageError(
            f"'{target}' was not saved by a script, so its weights have no place in one.",
            "Name a checkpoint of a run of the same script.",
        )
    if not set(classes.values()) & set(script.classes):
        saved = ", ".join(sorted(set(classes.values())))
        raise UsageError(
            f"'{target}' was saved by {opened.checkpoint.policy.get('script')} and holds {saved}; "
            f"{script.path.name} has no class of that name.",
            "Name a checkpoint of a run of the same script.",
        )
    return str(opened.checkpoint.path)


def copy_start_weights(order: LaunchSpec) -> LaunchSpec:
    """The bytes that were verified, in a file of this run's own, so that retention elsewhere cannot take them away."""
    if not order.start_from:
        return order
    opened = _open_checkpoint(order)
    path = order.outbox / START
    path.write_bytes(opened.parts[model_name(opened.checkpoint.epoch)])
    digest = str(opened.checkpoint.files[model_name(opened.checkpoint.epoch)]["sha256"])
    return replace(
        order,
        started_from=f"{opened.checkpoint.run}:{opened.checkpoint.epoch}",
        start={"weights": str(path), "sha256": digest},
    )


def _open_checkpoint(order: LaunchSpec) -> OpenedCheckpoint:
    sidecar = Path(order.start_from)
    return open_checkpoint(sidecar.parent, sidecar)
