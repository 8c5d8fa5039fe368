"""Every event a journal may hold, in one table; docs/events.md is this table for people."""

from __future__ import annotations

from dataclasses import dataclass


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
    "run.prioritised": EventSpec("info", ("priority",), "somebody moved the waiting run within the queue"),
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
        "info", ("measures", "versions"), "what was done so that a script finds what it was written for"
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
