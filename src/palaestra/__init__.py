"""Palaestra: the training ground beside the Gymnasium.

Everything the command line does is a function: `palaestra.train("cartpole", total_steps=100_000)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palaestra.api import analyze, evaluate, film, load_policy, request_policy_eval, sweep, train

__all__ = ["analyze", "evaluate", "film", "load_policy", "request_policy_eval", "runs", "sweep", "train"]


def __getattr__(name: str) -> Any:
    """Loaded when first used: `import palaestra` alone must not cost a second of torch."""
    if name == "runs":
        return import_module("palaestra.runs")
    if name in __all__:
        return getattr(import_module("palaestra.api"), name)
    raise AttributeError(f"module 'palaestra' has no attribute '{name}'")


def __dir__() -> list[str]:
    """For completion in a notebook; the names are there before they are loaded."""
    return sorted({*globals(), *__all__})
