"""Executors (group `palaestra.executors`) say where processes run: on this machine, on a Ray cluster, or elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.core import plugins
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = "executors"
LOCAL = "local"


@dataclass(frozen=True)
class Executor:
    """Three services, each a reference "package.module:object" that is imported when it is used, or None."""

    launch: Any = None  # function (Job, nproc) -> TrainOutcome: trains one run with `nproc` ranks
    trial_slots: Any = None  # function (SlotRequest) -> TrialRunner: trains many runs side by side
    remote_evaluator: Any = None  # function (RunDirectory) -> RemoteEvaluator: evaluates checkpoints during a training


def executor_names() -> list[str]:
    return sorted({LOCAL, *plugins.names(GROUP)})


def has_service(name: str, service: str) -> bool:
    """Whether the executor `name` exists and has that service; imports no more than the `Executor`."""
    return name in plugins.names(GROUP) and getattr(_load_executor(name), service) is not None


def load_service(name: str, service: str) -> Callable[..., Any]:
    """The service of the executor `name`: "launch", "trial_slots" or "remote_evaluator"."""
    reference = getattr(_load_executor(name), service)
    if reference is None:
        raise UsageError(f"The executor '{name}' has no {service}.", f"Executors: {', '.join(executor_names())}.")
    found: Callable[..., Any] = plugins.load_reference(reference, f"The {service} of the executor '{name}'")
    return found


def _load_executor(name: str) -> Executor:
    found = plugins.load(GROUP, name)
    if callable(found):  # version 0.1: the function that launches ranks
        found = Executor(launch=found)
    if not isinstance(found, Executor):
        raise UsageError(
            f"The executor '{name}' is a {type(found).__name__}, not a palaestra.core.executor.Executor.",
            "docs/plugins.md has an example.",
        )
    return found
