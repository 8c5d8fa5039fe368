"""A run as it would be typed, and as an order for whoever has a slot for it."""

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
from palaestra.core.trials import SlotsWanted, TrialOrder
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

REST_SECONDS = 5.0
LOOK_SECONDS = 0.05
HIDDEN = ".sweeps"  # in the runs directory; no run can be called so


def hidden_directory(runs_root: Path) -> Path:
    """Where sweeps keep their books and logs, beside the runs and never listed among them."""
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


def typed(value: Any) -> str:
    """As it would be typed after `key=`."""
    if isinstance(value, str) and _is_itself(value):
        return value
    if isinstance(value, float):
        return f"{value:.12g}" if float(f"{value:.12g}") == value else repr(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def command_of(recipe: str, settings: Mapping[str, Any], name: str) -> str:
    """The one command that would do the same."""
    words = [f"{key}={typed(value)}" for key, value in flatten(settings).items()]
    return shlex.join(["palaestra", "train", *([recipe] if recipe else []), f"run={name}", *words])


def prepare_run(
    recipe: str, settings: Mapping[str, Any], name: str, submitted_by: str
) -> tuple[RunRequest, TrainConfig]:
    nested = nest(flatten(settings))
    return build_request(recipe, nested, name=name, submitted_by=submitted_by, command=command_of(recipe, nested, name))


def make_order(request: RunRequest, config: TrainConfig, runs_root: Path, logs: Path) -> TrialOrder:
    job = TrainingJob(request, config, runs_root.absolute(), quiet=True)
    return TrialOrder(request.name, job.to_json(), logs / f"{request.name}.log")


def slots_wanted(config: TrainConfig, count: int | None) -> SlotsWanted:
    """`count` slots, each with what one run of that configuration keeps busy."""
    gpus = 1.0 if config.device == "cuda" else 0.0
    return SlotsWanted(count, config.torch_threads, gpus, config.cluster.address, config.cluster.cpus)


def is_done(store: RunStore, request: RunRequest, config: TrainConfig) -> bool:
    """Whether the run of that name has all its steps. One that is something else, or in other hands, is refused."""
    # the trainer writes a policy out in full before it compares; so it is left to the trainer
    found = find_run(store, request, config, must_exist=False, accept_changes=frozenset({"policy"}))
    if found is None:
        return False
    record = _at_rest(found.directory)
    if record.state in ACTIVE:
        raise UsageError(
            f"Run '{record.name}' is being trained by process {record.pid}.",
            f"Wait for it, or stop it: palaestra runs stop {record.name}",
        )
    return found.is_done


def _at_rest(directory: RunDirectory) -> RunRecord:
    """The processes of a killed sweeper end with it, but not in the same instant."""
    deadline = time.monotonic() + REST_SECONDS
    while (record := read_record(directory)).state in ACTIVE and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return record


def digest(data: Any) -> str:
    """A few letters that are the same for the same settings, and hardly ever for others."""
    text = json.dumps(data, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _is_itself(text: str) -> bool:
    """Whether YAML reads it as this very text."""
    try:
        return bool(parse_yaml(text) == text)
    except DamagedFile:
        return False
