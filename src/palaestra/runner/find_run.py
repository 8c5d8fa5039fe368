"""Finding or making the run that a request means, and refusing what does not fit it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from palaestra.config.policy import AUTO, CHOSEN_NETWORKS
from palaestra.config.train import TrainConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.run import RunState
from palaestra.runs.documents import Difference, diff_configs, format_differences, read_config
from palaestra.runs.status import read_record

if TYPE_CHECKING:
    from palaestra.core.run import RunRequest
    from palaestra.runs.directory import RunDirectory
    from palaestra.runs.store import RunStore

logger = logging.getLogger(__name__)

# What may differ without a word: it does not reach what is learned.
HARMLESS = (
    "loggers.",
    "live.",
    "checkpoints.",
    "distributed.",
    "cluster.",
    "evaluation.",
    "evaluate_",
    "env.workers",
    "env.step_timeout",
    "env.worker_timeout",
)


@dataclass(frozen=True)
class Found:
    """A run that exists already, and how its configuration is to change now that it goes on."""

    directory: RunDirectory
    config: TrainConfig  # to go on with
    changes: list[Difference]
    is_done: bool


def find_run(
    store: RunStore, request: RunRequest, config: TrainConfig, *, must_exist: bool, accept_changes: frozenset[str]
) -> Found | None:
    """The run called `request.name`, if there is one; changes that nobody accepted by name are refused."""
    directory = store.named(request.name) if request.name else None
    if directory is None:
        if must_exist:
            raise NotFound(f"There is no run called '{request.name}' to resume.", "'palaestra runs' lists them.")
        return None
    stored = _stored(directory)
    config = _with_its_network(_with_its_engine(config, stored), stored)
    differences = diff_configs(stored, config.model_dump(mode="json"))
    refused = [one for one in differences if not _is_accepted(one.key_path, accept_changes)]
    if refused:
        raise UsageError(
            f"Run '{request.name}' was made with another configuration:\n{format_differences(refused)}\n",
            f"Choose another name with run=NAME, or accept by name: {_flags(refused)}{_about_engines(refused)}",
        )
    record = read_record(directory)
    is_done = record.state is RunState.FINISHED and record.agent_step >= config.total_steps
    return Found(directory, config, differences, is_done)


def _stored(directory: RunDirectory) -> dict[str, Any]:
    """As the run was made, with the defaults of keys that are newer than it; they were off when it began.

    Before there was a choice of engines, torch was the only one.
    """
    stored = {"engine": "torch", **read_config(directory)}
    try:
        return TrainConfig.model_validate(stored).model_dump(mode="json")
    except ValidationError:  # a key that is gone by now: the comparison names it
        return stored


def _with_its_engine(config: TrainConfig, stored: dict[str, Any]) -> TrainConfig:
    """`auto` is no wish for another engine than the run was made with."""
    engine = stored["engine"]
    is_settled = config.engine == "auto" and engine in ("torch", "native")
    return config.model_copy(update={"engine": engine}) if is_settled else config


def _with_its_network(config: TrainConfig, stored: dict[str, Any]) -> TrainConfig:
    """`policy.graph=auto` stands for the network that the run began with."""
    graph = stored.get("policy", {}).get("graph")
    if config.policy.graph != AUTO or graph not in CHOSEN_NETWORKS:
        return config
    return config.model_copy(update={"policy": config.policy.model_copy(update={"graph": graph})})


def _about_engines(differences: list[Difference]) -> str:
    if not any(one.key_path == "engine" for one in differences):
        return ""
    return ". Without engine= it goes on with the engine it began with, bit for bit"


def _is_accepted(key: str, accepted: frozenset[str]) -> bool:
    return key.startswith(HARMLESS) or any(key == name or key.startswith(f"{name}.") for name in accepted)


def _flags(differences: list[Difference]) -> str:
    return " ".join(f"--override {one.key_path}" for one in differences)
