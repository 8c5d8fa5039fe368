"""Finds the run that a request continues, and refuses changes of its configuration that were not accepted."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from palaestra.config.policy import AUTO, CHOSEN_NETWORKS
from palaestra.config.train import TrainConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.run import RunState
from palaestra.policies.roles import with_role
from palaestra.runs.documents import Difference, diff_configs, format_differences, read_config
from palaestra.runs.status import read_record

if TYPE_CHECKING:
    from palaestra.core.run import RunRequest
    from palaestra.runs.directory import RunDirectory
    from palaestra.runs.store import RunStore

logger = logging.getLogger(__name__)

# Keys that may differ without being accepted: they do not influence what is learned.
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
    """A run that exists, and how its configuration changes when it continues."""

    directory: RunDirectory
    config: TrainConfig  # to continue with
    changes: list[Difference]
    is_done: bool


def find_run(
    store: RunStore, request: RunRequest, config: TrainConfig, *, must_exist: bool, accept_changes: frozenset[str]
) -> Found | None:
    """The run named `request.name`, or None. Changes that were not accepted by name are refused."""
    directory = store.named(request.name) if request.name else None
    if directory is None:
        if must_exist:
            raise NotFound(f"No run named '{request.name}' to resume.", "'palaestra runs' lists all runs.")
        return None
    stored = _stored(directory)
    config = _with_role(_keep_network(_keep_engine(config, stored), stored))
    differences = diff_configs(stored, config.model_dump(mode="json"))
    refused = [one for one in differences if not _is_accepted(one.key_path, accept_changes)]
    if refused:
        raise UsageError(
            f"Run '{request.name}' was created with a different configuration:\n{format_differences(refused)}\n",
            f"Choose another name with run=NAME, or accept by name: {_flags(refused)}{_engine_hint(refused)}",
        )
    record = read_record(directory)
    is_done = record.state is RunState.FINISHED and record.agent_step >= config.total_steps
    return Found(directory, config, differences, is_done)


def _stored(directory: RunDirectory) -> dict[str, Any]:
    """The run's own configuration, with defaults for keys that are newer than the run.

    Runs from before there was a choice of engines used torch.
    """
    stored = {"engine": "torch", **read_config(directory)}
    try:
        return _with_role(TrainConfig.model_validate(stored)).model_dump(mode="json")
    except ValidationError:  # a key that was removed: the comparison names it
        return stored


def _keep_engine(config: TrainConfig, stored: dict[str, Any]) -> TrainConfig:
    """`engine=auto` keeps the engine that the run was created with."""
    engine = stored["engine"]
    keeps_engine = config.engine == "auto" and engine in ("torch", "native")
    return config.model_copy(update={"engine": engine}) if keeps_engine else config


def _keep_network(config: TrainConfig, stored: dict[str, Any]) -> TrainConfig:
    """`policy.graph=auto` keeps the network that the run was created with."""
    graph = stored.get("policy", {}).get("graph")
    if config.policy.graph != AUTO or graph not in CHOSEN_NETWORKS:
        return config
    return config.model_copy(update={"policy": config.policy.model_copy(update={"graph": graph})})


def _with_role(config: TrainConfig) -> TrainConfig:
    """As a run that has begun states it: its algorithm decides about the network what the user left out."""
    return config.model_copy(update={"policy": with_role(config, config.policy)})


def _engine_hint(differences: list[Difference]) -> str:
    if not any(one.key_path == "engine" for one in differences):
        return ""
    return ". Without engine= it continues with its own engine, bit for bit"


def _is_accepted(key: str, accepted: frozenset[str]) -> bool:
    return key.startswith(HARMLESS) or any(key == name or key.startswith(f"{name}.") for name in accepted)


def _flags(differences: list[Difference]) -> str:
    return " ".join(f"--override {one.key_path}" for one in differences)
