"""Names of runs, and of their checkpoints, as completions offer them."""

from __future__ import annotations

from palaestra.runs.identity import RunNames
from palaestra.runs.store import runs_root

SELECTORS = ("best", "latest")


def run_names() -> list[str]:
    """From the names alone: completion must answer at once, also beside a damaged run."""
    names = RunNames(runs_root()).all()
    return [*sorted(names), "latest"] if names else []


def run_selectors() -> list[str]:
    return [*run_names(), *(f"{name}:{selector}" for name in run_names() for selector in SELECTORS)]
