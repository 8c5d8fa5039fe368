"""Starts the launcher: the specification of a script's run, its configuration keys and its child process."""

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

SNAPSHOT_FOLDER = ".snapshots"
SCRIPT_RUNS = "runs"  # folder in which CleanRL's scripts write TensorBoard files


@dataclass(frozen=True)
class LaunchSpec:
    run_directory: Path
    python: str
    script: str
    sha256: str  # of the script when the run was submitted
    argv: tuple[str, ...]
    settings: dict[str, Any]  # values of all known arguments, with defaults
    save_seconds: float
    keep: int
    wandb_mode: str
    start_from: str = ""  # path of a sidecar
    live_budget: float = 0.0  # 0: no live view
    started_from: str = ""  # RUN_ID:EPOCH, once the weights are copied
    start: dict[str, str] | None = None  # file and SHA-256 of the initial weights
    commit: str = ""  # of the script's checkout, once the run has started

    @property
    def frame_buffer(self) -> Path | None:
        return frame_buffer_path(RunDirectory(self.run_directory).id, TRAIN) if self.live_budget else None

    @property
    def outbox(self) -> Path:
        return self.run_directory / SNAPSHOT_FOLDER

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
        """Unbuffered output for the log, and a W&B mode that works without an API key."""
        return {"PYTHONUNBUFFERED": "1", "WANDB_MODE": choose_mode(self.wandb_mode or "auto"), **_thread_waiting()}


def _thread_waiting() -> dict[str, str]:
    """Limits how long torch's threads spin before they sleep, unless the user has set it.

    By default they spin all the time while a small network acts and occupy a core that the render process could use.
    10,000 spins are about 30 microseconds: the script is as fast and takes a third less CPU time.
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


def record_checkout(directory: RunDirectory, spec: LaunchSpec) -> str:
    """Writes the commit of the script's checkout to environment.json and returns it; "" outside of a repository.

    Called when the script starts, since a queued run executes the checkout as it is then.
    """
    git = describe_git(Path(spec.script).parent)
    if directory.environment_file.is_file():
        write_json(directory.environment_file, {**read_json(directory.environment_file), "git": git})
    return "" if git is None else str(git["commit"])


def prepare_directory(directory: RunDirectory, spec: LaunchSpec) -> None:
    """Deletes old snapshots, and links the script's TensorBoard folder to that of the run."""
    spec.outbox.mkdir(mode=0o700, exist_ok=True)
    for left in spec.outbox.iterdir():
        left.unlink()
    link = directory.path / SCRIPT_RUNS
    if not link.exists() and not link.is_symlink():
        link.symlink_to(directory.tensorboard.name, target_is_directory=True)


class LaunchConfig(Frozen):
    script: str = Field(default="", description="path of the script, which is run unmodified")
    python: str = Field(default="", description="path of the Python interpreter; empty: the one that runs Palaestra")
    save_seconds: float = Field(default=60.0, ge=0, description="seconds between checkpoints; 0: only at the end")
    keep: int = Field(default=5, ge=1, description="how many checkpoints to keep")
    start_from: str = Field(
        default="", description="checkpoint of a run of the same script to start from: RUN, RUN:best, RUN:EPOCH"
    )
    live_budget: float = Field(
        default=0.011, ge=0, le=1, description="share of the time for rendering while somebody watches; 0: no live view"
    )
    wandb_mode: Literal["", "online", "offline", "disabled"] = Field(
        default="",
        description="W&B mode for scripts with track=true; empty: from the environment, offline without an API key",
    )


OWN_KEYS = tuple(LaunchConfig.model_fields)

START_FILE = Path(__file__).parent / "launcher" / "bootstrap.py"
KILL_SECONDS = 20.0  # after a requested stop; the daemon waits longer


class Child:
    """The script's process and its messages. An incomplete last line is dropped."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._reader = LineReader(descriptor)
        self._is_open = True

    def messages(self, seconds: float) -> list[list[Any]]:
        """Messages that arrive within that time; returns as soon as there are any."""
        if not self._is_open or not self._reader.wait(seconds):
            return []
        try:
            return [message for line in self._reader.read() for message in _decode(line)]
        except EOFError:
            self._is_open = False
            return []

    def drain(self) -> list[list[Any]]:
        """Messages left in the pipe, without waiting for its end: worker processes may hold it open."""
        found: list[list[Any]] = []
        while more := self.messages(0.0):
            found += more
        return found

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


@contextmanager
def start_script(spec: LaunchSpec) -> Iterator[Child]:
    """The launcher in its own session, so that Ctrl-C does not reach it directly; it ends with the block."""
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [spec.python, str(START_FILE), json.dumps({**spec.for_launcher(), "descriptor": writing})],
            cwd=spec.run_directory,
            env={**os.environ, **spec.environment()},
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
    found = messages if isinstance(messages, list) else []
    return [one for one in found if isinstance(one, list) and one and isinstance(one[0], str)]


START = "start.safetensors"


def resolve_start_checkpoint(target: str, script: Script, runs_root: Path) -> str:
    """Path of the sidecar that `target` names; refused if none of its networks has a class of this script."""
    opened = find_target(target, runs_root).open()
    classes = opened.checkpoint.policy.get("classes")
    if not isinstance(classes, dict):
        raise UsageError(
            f"'{target}' was not saved by a script; its weights cannot be loaded into one.",
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


def copy_start_weights(spec: LaunchSpec) -> LaunchSpec:
    """Copies the verified weights into this run, so that retention of the other run cannot delete them."""
    if not spec.start_from:
        return spec
    opened = _open_checkpoint(spec)
    path = spec.outbox / START
    path.write_bytes(opened.parts[model_name(opened.checkpoint.epoch)])
    digest = str(opened.checkpoint.files[model_name(opened.checkpoint.epoch)]["sha256"])
    return replace(
        spec,
        started_from=f"{opened.checkpoint.run}:{opened.checkpoint.epoch}",
        start={"weights": str(path), "sha256": digest},
    )


def _open_checkpoint(spec: LaunchSpec) -> OpenedCheckpoint:
    sidecar = Path(spec.start_from)
    return open_checkpoint(sidecar.parent, sidecar)
