"""`journal.jsonl`: what happened to a run, one line each, in the order in which it happened."""

from __future__ import annotations

import json
import logging
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.core.clock import Clock, SystemClock
from palaestra.core.run import JournalEntry
from palaestra.runs.files import append_line, finite

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)


class Journal:
    """Lines are small and go out in one write each, so several processes may keep one journal."""

    def __init__(self, directory: RunDirectory, clock: Clock | None = None, rank: int = 0) -> None:
        self._path = directory.journal_file
        self._run = directory.id
        self._clock = clock or SystemClock()
        self._rank = rank
        self.failures = 0  # entries that could not be written

    def record(self, event: str, *, level: str | None = None, **data: Any) -> None:
        """Write one entry. A full disk is said once and counted; it never stops the run."""
        _warn_of_unknown_names(event, data)
        entry = {
            "at": round(self._clock.now(), 6),
            "event": event,
            "level": level or (EVENTS[event].level if event in EVENTS else "info"),
            "run": self._run,
            "rank": self._rank,
            "data": finite(data),
        }
        try:
            append_line(self._path, json.dumps(entry, ensure_ascii=False, separators=(",", ":"), default=str))
        except OSError as error:
            self._count(error)

    def _count(self, error: OSError) -> None:
        self.failures += 1
        if self.failures == 1:
            logger.warning("The journal %s cannot be written (%s); the run goes on without it.", self._path, error)


def read_journal(path: Path) -> list[JournalEntry]:
    """All entries, oldest first by position: clocks jump. Torn lines and an absent file hold no entry."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    entries = (_decode(line) for line in content.split(b"\n"))
    return [entry for entry in entries if entry is not None]


def _decode(line: bytes) -> JournalEntry | None:
    try:
        fields = json.loads(line)
        return JournalEntry(
            at=float(fields["at"]),
            event=str(fields["event"]),
            level=str(fields["level"]),
            rank=int(fields["rank"]),
            data=dict(fields["data"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _warn_of_unknown_names(event: str, data: dict[str, Any]) -> None:
    """A warning, because a wrong word must not stop a run; in our tests every warning is an error."""
    if event not in EVENTS:
        warnings.warn(f"the event '{event}' is not in palaestra.runs.journal.EVENTS", stacklevel=3)
        return
    unknown = sorted(set(data) - set(EVENTS[event].fields))
    if unknown:
        warnings.warn(f"the event '{event}' has no field {', '.join(unknown)}", stacklevel=3)


@dataclass(frozen=True)
class EventSpec:
    level: str  # "debug", "info", "warning" or "error"
    fields: tuple[str, ...]  # what `data` may hold; an entry may leave some out
    meaning: str


EVENTS: dict[str, EventSpec] = {
    "run.created": EventSpec(
        "info", ("name", "recipe", "kind", "submitted_by", "command"), "the run's directory was made"
    ),
    "run.queued": EventSpec(
        "info", ("sequence", "priority", "attempt"), "a daemon accepted the run, or accepted to go on with it"
    ),
    "run.prioritised": EventSpec("info", ("priority",), "the priority of the queued run was changed"),
    "worker.started": EventSpec(
        "info", ("pid", "attempt", "command", "gpus"), "a daemon started a process for the run"
    ),
    "worker.ended": EventSpec(
        "info",
        ("pid", "attempt", "exit_code", "signal", "cause", "output", "dropped_bytes"),
        "that process ended; `output` is the end of what it printed",
    ),
    "run.started": EventSpec(
        "info",
        ("pid", "seed", "initial_weights", "total_steps", "device", "engine", "stepping", "world_size"),
        "a process began to train from the first step",
    ),
    "run.resumed": EventSpec(
        "info",
        (
            "pid",
            "epoch",
            "step",
            "checkpoint",
            "exact",
            "reason",
            "total_steps",
            "device",
            "engine",
            "stepping",
            "world_size",
        ),
        "a process went on from a checkpoint; `exact` says whether bit for bit, `reason` why not",
    ),
    "run.restarted": EventSpec(
        "warning",
        ("restart", "cause", "epoch", "step"),
        "the ranks failed with `cause` and started again by themselves; from the first step where epoch is 0",
    ),
    "run.heartbeat": EventSpec(
        "debug", ("epoch", "step", "phase", "steps_per_second"), "the run is alive, also inside long phases"
    ),
    "run.stopping": EventSpec(
        "info", ("signal", "reason", "epoch", "step"), "a stop was asked for; the update ends and is saved"
    ),
    "run.finished": EventSpec("info", ("epoch", "step", "seconds", "score"), "all steps were taken"),
    "run.cancelled": EventSpec("warning", ("epoch", "step", "seconds", "reason"), "the run was stopped before its end"),
    "run.failed": EventSpec(
        "error",
        ("epoch", "step", "error", "kind", "exit_code", "checkpoint", "traceback"),
        "the run could not go on; `traceback` is that of the user's code, shortened, where it raised",
    ),
    "rank.failed": EventSpec(
        "error", ("rank", "error"), "the first rank of several that failed, as its launcher saw it; the others followed"
    ),
    "rank.slow": EventSpec(
        "warning",
        ("rank", "seconds", "others_seconds", "epoch", "step"),
        "the others wait for this rank at every update: its own work of one iteration, and theirs; said once a rank",
    ),
    "code.differs": EventSpec(
        "warning",
        ("rank", "host", "files"),
        "a rank has other Palaestra code than rank 0, which distributed.allow_different_code accepted",
    ),
    "run.lost": EventSpec("error", ("pid", "epoch", "step"), "its process was found dead without a word"),
    "config.changed": EventSpec(
        "warning", ("differences",), "the run was continued with another config, which was accepted by name"
    ),
    "checkpoint.saved": EventSpec(
        "info", ("epoch", "step", "file", "bytes", "seconds", "score"), "a checkpoint is on disk, durable"
    ),
    "checkpoint.failed": EventSpec(
        "warning", ("epoch", "step", "error", "failures"), "a checkpoint could not be written; the run goes on"
    ),
    "checkpoint.damaged": EventSpec(
        "warning", ("file", "reason", "used"), "a checkpoint did not verify; the one before was used"
    ),
    "checkpoint.removed": EventSpec("debug", ("epoch", "file"), "retention removed a checkpoint"),
    "checkpoint.scored": EventSpec("info", ("epoch", "score", "episodes"), "an evaluation judged a checkpoint"),
    "eval.started": EventSpec("info", ("checkpoint", "epoch", "episodes", "suite", "seed"), "an evaluation began"),
    "eval.batch": EventSpec(
        "info",
        (
            "batch",
            "checkpoint",
            "epoch",
            "suite",
            "episodes",
            "mean",
            "min",
            "max",
            "std",
            "seconds",
            "capped",
            "complete",
        ),
        "a batch of episodes was played",
    ),
    "eval.finished": EventSpec(
        "info",
        ("checkpoint", "epoch", "episodes", "mean", "min", "max", "std", "seconds", "complete", "file"),
        "an evaluation ended",
    ),
    "eval.failed": EventSpec(
        "warning", ("checkpoint", "epoch", "error"), "an evaluation could not be carried out, or not be written down"
    ),
    "video.saved": EventSpec("info", ("checkpoint", "epoch", "file", "episodes"), "a video was written"),
    "replay.saved": EventSpec("info", ("checkpoint", "epoch", "file", "episodes"), "replays were written"),
    "artifact.saved": EventSpec("info", ("file", "kind", "checkpoint"), "an export or another artefact was written"),
    "script.adapted": EventSpec(
        "info", ("measures", "versions"), "adaptations made for a script that was written for other versions"
    ),
    "script.warmed": EventSpec(
        "info", ("checkpoint", "networks", "optimisers"), "a script began with the weights of a checkpoint"
    ),
    "script.silent": EventSpec("warning", ("reason",), "no episode was seen to end while a script ran"),
    "frames.failed": EventSpec("warning", ("reason", "role"), "the live view was switched off; the run goes on"),
    "sink.failed": EventSpec("warning", ("sink", "error"), "a logger raised and was disabled; the run continues"),
    "sink.dropped": EventSpec(
        "warning",
        ("sink", "count"),
        "samples were dropped because a logger was too slow; the run was not delayed",
    ),
}
