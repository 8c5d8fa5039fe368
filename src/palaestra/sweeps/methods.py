"""Who says what is tried next: a list made beforehand, or a library that learns from what was tried."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from palaestra.core.errors import MissingExtra

if TYPE_CHECKING:
    from palaestra.sweeps.plan import SweepPlan
    from palaestra.sweeps.trial import Trial


class Method(Protocol):
    def next_settings(self, trials: list[Trial]) -> dict[str, Any] | None:
        """Given all trials so far, in the order of their numbers; None: there is nothing more to try."""
        ...


class Listed:
    def __init__(self, settings: tuple[dict[str, Any], ...]) -> None:
        self._settings = settings

    def next_settings(self, trials: list[Trial]) -> dict[str, Any] | None:
        return self._settings[len(trials)] if len(trials) < len(self._settings) else None


def open_method(plan: SweepPlan) -> Method:
    if plan.config.method != "optuna":
        return Listed(plan.listed)
    if not has_optuna():
        raise MissingExtra("method=optuna", "sweep")
    method: Method = _optuna_method(plan)
    return method


def importances(plan: SweepPlan, trials: list[Trial]) -> dict[str, float]:
    """Of each key that was tried, where Optuna is there to tell and there is enough to tell it from."""
    found: dict[str, float] = _optuna_method(plan).importances(trials) if has_optuna() else {}
    return found


def has_optuna() -> bool:
    return find_spec("optuna") is not None


def _optuna_method(plan: SweepPlan) -> Any:
    module = import_module("palaestra.sweeps.optuna_search")  # only where it is asked for: Optuna is an extra
    return module.OptunaMethod(plan.parameters, plan.config.sampler_seed, is_minimized=plan.is_minimized)
