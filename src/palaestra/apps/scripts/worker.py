"""`python -m palaestra.apps.scripts.worker RUN_DIRECTORY`: runs a script and records its messages in the run."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from palaestra.apps.scripts.checkpoints import CheckpointImporter
from palaestra.apps.scripts.launch import (
    KILL_SECONDS,
    copy_start_weights,
    prepare_directory,
    read_launch_spec,
    record_checkout,
    start_script,
)
from palaestra.apps.scripts.metrics import ScriptMetrics
from palaestra.apps.scripts.scan import remember_checkout_of
from palaestra.apps.scripts.script import read_source
from palaestra.apps.scripts.videos import link_video
from palaestra.core.clock import SystemClock
from palaestra.core.errors import PalaestraError, RunFailed
from palaestra.rendering.frame_buffer import TRAIN, FrameBufferOwner, remove_dead_frame_buffers
from palaestra.rendering.frame_format import Heartbeat
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.offscreen import prepare_rendering
from palaestra.runner.session import RunSession
from palaestra.runner.signals import exit_code_of, stop_on_signals
from palaestra.runner.worker import INTERRUPTED, record_refusal
from palaestra.runs.directory import RunDirectory
from palaestra.runs.lock import run_lock
from palaestra.runs.logs import run_log
from palaestra.runs.metrics.writer import MetricsWriter, wait_for_writer
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from types import TracebackType

    from palaestra.apps.scripts.launch import Child, LaunchSpec
    from palaestra.runner.session import Events
    from palaestra.runner.signals import StopRequest


logger = logging.getLogger("palaestra.apps.scripts.worker")  # __name__ is "__main__" here

POLL_SECONDS = 0.25


class ScriptRun:
    """Handles the messages of one execution of a script."""

    def __init__(
        self, session: RunSession, spec: LaunchSpec, metrics: MetricsWriter, frame_buffer: ScriptFrameBuffer
    ) -> None:
        self._session = session
        self._frame_buffer = frame_buffer
        self._spec = spec
        self._writer = metrics
        self._metrics = ScriptMetrics()
        self._checkpoints = CheckpointImporter(session, spec, self._metrics)
        self.ended: tuple[str, str] | None = None  # state and error

    def follow(self, child: Child, stop: StopRequest) -> int:
        """Handles messages until the script has ended; returns its exit code."""
        deadline = float("inf")
        while child.process.poll() is None:
            self.take(child.messages(POLL_SECONDS))
            if stop and deadline == float("inf"):
                assert stop.signal is not None, "a stop has its signal"
                deadline = time.monotonic() + KILL_SECONDS
                self._session.stopping(signal.Signals(stop.signal).name)
                child.signal(signal.SIGTERM)
            if time.monotonic() > deadline:
                child.process.kill()
        self.take(child.drain())
        self._record_end()
        return child.process.returncode

    def take(self, messages: list[list[Any]]) -> None:
        self._writer.write(*self._metrics.take(messages))
        self._frame_buffer.take(messages, self._metrics)
        for kind, *rest in messages:
            if kind == "adapted":
                self._record_adaptations(*rest)
            elif kind == "saved":
                self._checkpoints.commit(Path(rest[1]), int(rest[2]))
            elif kind == "warm_started":
                self._session.journal.record(
                    "script.warmed", checkpoint=self._spec.started_from, networks=rest[0], optimisers=rest[1]
                )
            elif kind == "video":
                self._save_video(*rest)
            elif kind == "render_process_failed":
                logger.info("Frames are rendered by the script's own process, not by a render process: %s.", *rest)
            elif kind == "save_failed":
                logger.warning("No checkpoint was saved (%s): %s.", *rest)
            elif kind == "ended":
                self.ended = (str(rest[0]), str(rest[1]))
        self._session.heartbeat(
            self._checkpoints.saved, self._metrics.step, self._metrics.steps_per_second, self._metrics.summary()
        )

    def _save_video(self, frames: str, video: str, frame_rate: float) -> None:
        directory = self._session.directory
        try:
            kept = link_video(frames, Path(video), frame_rate, directory.videos)
        except (OSError, PalaestraError) as error:
            logger.warning("A video of the script was not saved: %s.", error)
            return
        self._session.journal.record("video.saved", file=str(kept.relative_to(directory.path)), episodes=1)

    def _record_adaptations(self, changes: list[str], versions: dict[str, str]) -> None:
        """Records the adaptations in log and journal, and saves the script as an artifact."""
        self._checkpoints.versions = versions
        for change in changes:
            logger.info("Adapted for the script: %s.", change)
        self._session.journal.record("script.adapted", measures=changes, versions=versions)
        source = read_source(Path(self._spec.script))
        found = hashlib.sha256(source).hexdigest()
        if found != self._spec.sha256:
            logger.warning("%s has changed since the run was submitted.", self._spec.script)
        artifacts = self._session.directory.artifacts
        (artifacts / "script.py").write_bytes(source)
        about = {
            "script": self._spec.script,
            "sha256": found,
            "argv": list(self._spec.argv),
            "python": self._spec.python,
            "commit": self._spec.commit,
            "versions": versions,
            "adapted": changes,
        }
        (artifacts / "script.json").write_text(json.dumps(about, indent=2))
        for name in ("script.py", "script.json"):
            self._session.journal.record("artifact.saved", file=name, kind="script")

    def _record_end(self) -> None:
        if not self._metrics.episodes:
            logger.warning("No episode ended in this run: %s.", self._frame_buffer.reason_without_episodes)
            self._session.journal.record("script.silent", reason=self._frame_buffer.reason_without_episodes)
        for tag in sorted(self._metrics.not_finite):
            logger.warning("%s: NaN and infinite values were dropped.", tag)


def main(directory: RunDirectory) -> int:
    """Runs the script of the directory; errors before its start are recorded in the run and printed."""
    try:
        spec = read_launch_spec(directory)
        with run_lock(directory), run_log(directory), stop_on_signals() as stop:
            prepare_directory(directory, spec)
            remember_checkout_of(directory.path.parent, Path(spec.script))
            spec = replace(copy_start_weights(spec), commit=record_checkout(directory, spec))
            total = spec.settings.get("total_timesteps")
            session = RunSession(directory, int(total) if isinstance(total, int | float) else 0, SystemClock())
            return _run(session, spec, stop)
    except PalaestraError as error:
        record_refusal(directory, error)
        print(f"palaestra: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(session: RunSession, spec: LaunchSpec, stop: StopRequest) -> int:
    seed = spec.settings.get("seed")
    prepare_rendering("rgb_array")  # for the live view; the script inherits the settings
    if spec.settings.get("track") is True:
        logger.info("The script tracks with W&B, %s.", spec.environment()["WANDB_MODE"])
    initial = {"initial_weights": spec.started_from} if spec.started_from else {}
    session.journal.record("run.started", pid=os.getpid(), seed=seed, total_steps=session.record.total_steps, **initial)
    try:
        with (
            wait_for_writer(session.directory.metrics_file) as metrics,
            ScriptFrameBuffer(spec.frame_buffer, session.journal) as frame_buffer,
            start_script(spec) as child,
        ):
            metrics.rewind(-1)  # a restarted script begins at step 0
            run = ScriptRun(session, spec, metrics, frame_buffer)
            code = run.follow(child, stop)
    except BaseException as error:
        session.failed(error, error.exit_code if isinstance(error, PalaestraError) else 1)
        raise
    return _record_outcome(session, run, code, stop)


def _record_outcome(session: RunSession, run: ScriptRun, code: int, stop: StopRequest) -> int:
    state, error = run.ended or ("", "")
    if stop.signal is not None and state != "finished":
        session.cancelled(signal.Signals(stop.signal).name, exit_code_of(stop.signal))
        return exit_code_of(stop.signal)
    if state == "finished":
        session.finished()
        return 0
    if not error:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        error = f"The script {how} without an error message"
    failure = RunFailed(
        error if error.endswith((".", "?", "!")) else f"{error}.", "See its output: palaestra runs logs."
    )
    session.failed(failure, 1)
    print(f"palaestra: {failure}", file=sys.stderr)
    return 1


MAX_TILES = 64  # further environments are not shown
LARGEST_SIDE = 640  # pixels


class ScriptFrameBuffer:
    """Creates the frame buffer at the script's first step, when all its environments exist; removes it at the end."""

    def __init__(self, path: Path | None, journal: Events) -> None:
        """`path` None: no live view. Frame buffers of killed processes are removed first."""
        self._path = path
        self._journal = journal
        self._count = 0
        self._writer: FrameWriter | None = None
        self._stack = ExitStack()
        if path is not None:
            remove_dead_frame_buffers(is_alive)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.write_heartbeat(Heartbeat(time.monotonic(), 0, 0, 0, 0.0, 0.0, "closed"))
        self._stack.close()

    @property
    def reason_without_episodes(self) -> str:
        """Explains why a run has no episodes."""
        if not self._count:
            return "the script made no environment with gymnasium.make"
        return f"the script made {self._count} environments, and no episode ended while it ran"

    def take(self, messages: list[list[Any]], metrics: ScriptMetrics) -> None:
        for kind, *rest in messages:
            if kind == "env":
                self._count = max(self._count, int(rest[0]) + 1)
            elif kind == "live_view_failed":
                logger.warning("The live view stopped; the script continues. %s.", rest[0])
                self._journal.record("frames.failed", reason=str(rest[0]), role=TRAIN)
        if self._path is not None and self._writer is None and self._count and metrics.step > 0:
            self._open(self._path)

    def _open(self, path: Path) -> None:
        try:
            started_at = process_started_at(os.getpid()) or 0.0
            owner = FrameBufferOwner(path, min(self._count, MAX_TILES), 3 * LARGEST_SIDE**2, started_at)
            self._stack.enter_context(owner)
            self._writer = self._stack.enter_context(closing(FrameWriter(owner.descriptor, owner.about)))
        except (OSError, PalaestraError) as error:
            self._path = None
            logger.warning("The run continues without a live view: its frame buffer could not be created. %s.", error)
            self._journal.record("frames.failed", reason=str(error), role=TRAIN)


if __name__ == "__main__":
    sys.exit(main(RunDirectory(Path(sys.argv[1]))))
