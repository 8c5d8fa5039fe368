"""`python -m palaestra.apps.scripts.worker RUN_DIRECTORY`: run the script of that run and write down what it tells."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.apps.scripts.checkpoints import SnapshotKeeper
from palaestra.apps.scripts.launch import (
    KILL_SECONDS,
    copy_start_weights,
    prepare_directory,
    read_launch_spec,
    record_checkout,
    started,
)
from palaestra.apps.scripts.live import ScriptFrameBuffer
from palaestra.apps.scripts.metrics import ScriptMetrics
from palaestra.apps.scripts.scan import remember_checkout_of
from palaestra.apps.scripts.script import read_source
from palaestra.apps.scripts.videos import keep_video
from palaestra.core.clock import SystemClock
from palaestra.core.errors import PalaestraError, RunFailed
from palaestra.rendering.offscreen import prepare_rendering
from palaestra.runner.session import RunSession
from palaestra.runner.signals import exit_code_of, stop_on_signals
from palaestra.runner.worker import INTERRUPTED, record_refusal
from palaestra.runs.directory import RunDirectory
from palaestra.runs.lock import run_lock
from palaestra.runs.logs import run_log
from palaestra.runs.metrics.writer import MetricsWriter, wait_for_writer

if TYPE_CHECKING:
    from palaestra.apps.scripts.launch import Child, LaunchSpec
    from palaestra.runner.signals import StopRequest

logger = logging.getLogger("palaestra.apps.scripts.worker")  # __name__ is "__main__" here

LOOK_SECONDS = 0.25


class ScriptRun:
    """One start of a script, from its first message to its last."""

    def __init__(
        self, session: RunSession, spec: LaunchSpec, metrics: MetricsWriter, frame_buffer: ScriptFrameBuffer
    ) -> None:
        self._session = session
        self._frame_buffer = frame_buffer
        self._order = spec
        self._metrics = metrics
        self._ledger = ScriptMetrics()
        self._keeper = SnapshotKeeper(session, spec, self._ledger)
        self.ended: tuple[str, str] | None = None  # how, and what went wrong

    def follow(self, child: Child, stop: StopRequest) -> int:
        """Until the script has ended; its exit code."""
        deadline = float("inf")
        while child.process.poll() is None:
            self.take(child.messages(LOOK_SECONDS))
            if stop and deadline == float("inf"):
                assert stop.signal is not None, "a stop has its signal"
                deadline = time.monotonic() + KILL_SECONDS
                self._session.stopping(signal.Signals(stop.signal).name)
                child.signal(signal.SIGTERM)
            if time.monotonic() > deadline:
                child.process.kill()
        self.take(child.drain())
        self._note_the_end()
        return child.process.returncode

    def take(self, messages: list[list[Any]]) -> None:
        self._metrics.write(*self._ledger.take(messages))
        self._frame_buffer.take(messages, self._ledger)
        for kind, *rest in messages:
            if kind == "adapted":
                self._note_adapted(*rest)
            elif kind == "saved":
                self._keeper.keep(Path(rest[1]), int(rest[2]))
            elif kind == "warmed":
                self._session.journal.record(
                    "script.warmed", checkpoint=self._order.started_from, networks=rest[0], optimisers=rest[1]
                )
            elif kind == "film":
                self._keep_film(*rest)
            elif kind == "unpainted":
                logger.info("Pictures are drawn by the script's own process, not beside it: %s.", *rest)
            elif kind == "unsaved":
                logger.warning("No checkpoint was saved (%s): %s.", *rest)
            elif kind == "ended":
                self.ended = (str(rest[0]), str(rest[1]))
        self._session.heartbeat(
            self._keeper.saved, self._ledger.step, self._ledger.steps_per_second, self._ledger.summary()
        )

    def _keep_film(self, pictures: str, film: str, frame_rate: float) -> None:
        directory = self._session.directory
        try:
            kept = keep_video(pictures, Path(film), frame_rate, directory.videos)
        except (OSError, PalaestraError) as error:
            logger.warning("A film of the script was not kept: %s.", error)
            return
        self._session.journal.record("video.saved", file=str(kept.relative_to(directory.path)), episodes=1)

    def _note_adapted(self, measures: list[str], versions: dict[str, str]) -> None:
        """What was changed for the script's sake stands in the log and, with its source, among the artefacts."""
        self._keeper.versions = versions
        for measure in measures:
            logger.info("Adapted for the script: %s.", measure)
        self._session.journal.record("script.adapted", measures=measures, versions=versions)
        source = read_source(Path(self._order.script))
        found = hashlib.sha256(source).hexdigest()
        if found != self._order.sha256:
            logger.warning("%s has changed since the run was asked for.", self._order.script)
        artifacts = self._session.directory.artifacts
        (artifacts / "script.py").write_bytes(source)
        about = {
            "script": self._order.script,
            "sha256": found,
            "argv": list(self._order.argv),
            "python": self._order.python,
            "commit": self._order.commit,
            "versions": versions,
            "adapted": measures,
        }
        (artifacts / "script.json").write_text(json.dumps(about, indent=2))
        for name in ("script.py", "script.json"):
            self._session.journal.record("artifact.saved", file=name, kind="script")

    def _note_the_end(self) -> None:
        if not self._ledger.episodes:
            logger.warning("No episode was seen to end in this run: %s.", self._frame_buffer.why_nothing_was_seen)
            self._session.journal.record("script.silent", reason=self._frame_buffer.why_nothing_was_seen)
        for tag in sorted(self._ledger.not_finite):
            logger.warning("%s was NaN or infinite at times; such numbers are not kept.", tag)


def main(directory: RunDirectory) -> int:
    """What could not even begin is told in the run's own files, and once more for the log."""
    try:
        spec = read_launch_spec(directory)
        with run_lock(directory), run_log(directory), stop_on_signals() as stop:
            prepare_directory(directory, spec)
            remember_checkout_of(directory.path.parent, Path(spec.script))
            spec = replace(copy_start_weights(spec), commit=record_checkout(directory, spec))
            total = spec.settings.get("total_timesteps")
            session = RunSession(directory, int(total) if isinstance(total, int | float) else 0, SystemClock())
            return _carry_out(session, spec, stop)
    except PalaestraError as error:
        record_refusal(directory, error)
        print(f"palaestra: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


def _carry_out(session: RunSession, spec: LaunchSpec, stop: StopRequest) -> int:
    seed = spec.settings.get("seed")
    prepare_rendering("rgb_array")  # for whoever watches; the script inherits it
    if spec.settings.get("track") is True:
        logger.info("The script tracks with W&B, %s.", spec.environment()["WANDB_MODE"])
    begun = {"initial_weights": spec.started_from} if spec.started_from else {}
    session.journal.record("run.started", pid=os.getpid(), seed=seed, total_steps=session.record.total_steps, **begun)
    try:
        with (
            wait_for_writer(session.directory.metrics_file) as metrics,
            ScriptFrameBuffer(spec.frame_buffer, session.journal) as frame_buffer,
            started(spec) as child,
        ):
            metrics.rewind(-1)  # a script that is started again begins at its first step
            run = ScriptRun(session, spec, metrics, frame_buffer)
            code = run.follow(child, stop)
    except BaseException as error:
        session.failed(error, error.exit_code if isinstance(error, PalaestraError) else 1)
        raise
    return _conclude(session, run, code, stop)


def _conclude(session: RunSession, run: ScriptRun, code: int, stop: StopRequest) -> int:
    state, error = run.ended or ("", "")
    if stop.signal is not None and state != "finished":
        session.cancelled(signal.Signals(stop.signal).name, exit_code_of(stop.signal))
        return exit_code_of(stop.signal)
    if state == "finished":
        session.finished()
        return 0
    if not error:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"
        error = f"The script {how} and without a word"
    failure = RunFailed(error if error.endswith((".", "?", "!")) else f"{error}.", "Its output tells more.")
    session.failed(failure, 1)
    print(f"palaestra: {failure}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(RunDirectory(Path(sys.argv[1]))))
