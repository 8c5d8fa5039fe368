"""Names of runs, and of their checkpoints, as completions offer them."""

from __future__ import annotations

from palaestra.runs.store import runs_root

SELECTORS = ("best", "latest")


def run_names() -> list[str]:
    """Read from the directory names alone: completion must answer at once, also beside a damaged run."""
    by_name = runs_root() / "by-name"
    return [*sorted(entry.name for entry in by_name.iterdir()), "latest"] if by_name.is_dir() else []


def run_selectors() -> list[str]:
    return [*run_names(), *(f"{name}:{selector}" for name in run_names() for selector in SELECTORS)]
