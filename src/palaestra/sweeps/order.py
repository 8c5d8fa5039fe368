"""A run of a sweep: as a command line, and as a request for a slot."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from typing import TYPE_CHECKING, Any

from palaestra.config.overrides import nest
from palaestra.config.resolve import build_request
from palaestra.config.yaml import parse_yaml
from palaestra.core.errors import DamagedFile, UsageError
from palaestra.core.trials import SlotRequest, TrialRequest
from palaestra.runner.find_run import find_run
from palaestra.runner.job import TrainingJob
from palaestra.runs.status import ACTIVE, read_record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from palaestra.config.train import TrainConfig
    from palaestra.core.run import RunRecord, RunRequest
    from palaestra.runs.directory import RunDirectory
    from palaestra.runs.store import RunStore

INACTIVE_SECONDS = 5.0
POLL_SECONDS = 0.05
HIDDEN = ".sweeps"  # in the runs directory; no run may have this name


def hidden_directory(runs_root: Path) -> Path:
    """Where sweeps store their tables and logs: in the runs directory, but not listed as a run."""
    return runs_root.absolute() / HIDDEN


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"ppo": {"gamma": 0.9}}` to `{"ppo.gamma": 0.9}`; an empty mapping is a value."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def format_value(value: Any) -> str:
    """The text of a value after `key=`."""
    if isinstance(value, str) and _is_unquoted_yaml(value):
        return value
    if isinstance(value, float):
        return f"{value:.12g}" if float(f"{value:.12g}") == value else repr(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def command_of(recipe: str, settings: Mapping[str, Any], name: str) -> str:
    """The command that trains the same run."""
    words = [f"{key}={format_value(value)}" for key, value in flatten(settings).items()]
    return shlex.join(["palaestra", "train", *([recipe] if recipe else []), f"run={name}", *words])


def prepare_run(
    recipe: str, settings: Mapping[str, Any], name: str, submitted_by: str
) -> tuple[RunRequest, TrainConfig]:
    nested = nest(flatten(settings))
    return build_request(recipe, nested, name=name, submitted_by=submitted_by, command=command_of(recipe, nested, name))


def make_order(request: RunRequest, config: TrainConfig, runs_root: Path, logs: Path) -> TrialRequest:
    job = TrainingJob(request, config, runs_root.absolute(), quiet=True)
    return TrialRequest(request.name, job.to_json(), logs / f"{request.name}.log")


def slot_request(config: TrainConfig, count: int | None) -> SlotRequest:
    """`count` slots, each with what one run of that configuration keeps busy."""
    gpus = 1.0 if config.device == "cuda" else 0.0
    return SlotRequest(count, config.torch_threads, gpus, config.cluster.address, config.cluster.cpus)


def is_done(store: RunStore, request: RunRequest, config: TrainConfig) -> bool:
    """Whether the run of that name has all its steps. Refuses a different run, and one that is being trained."""
    # the trainer completes the policy before it compares, so policies are left to it
    found = find_run(store, request, config, must_exist=False, accept_changes=frozenset({"policy"}))
    if found is None:
        return False
    record = _wait_until_inactive(found.directory)
    if record.state in ACTIVE:
        raise UsageError(
            f"Run '{record.name}' is being trained by process {record.pid}.",
            f"Wait for it, or stop it: palaestra runs stop {record.name}",
        )
    return found.is_done


def _wait_until_inactive(directory: RunDirectory) -> RunRecord:
    """Waits for the processes of a killed sweep, which end a moment after it."""
    deadline = time.monotonic() + INACTIVE_SECONDS
    while (record := read_record(directory)).state in ACTIVE and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return record


def digest(data: Any) -> str:
    """A short hash of settings."""
    text = json.dumps(data, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _is_unquoted_yaml(text: str) -> bool:
    """Whether YAML reads it as this text."""
    try:
        return bool(parse_yaml(text) == text)
    except DamagedFile:
        return False
