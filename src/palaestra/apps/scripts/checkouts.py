"""Checkouts that were scanned or trained from, remembered beside the runs, so that a form can offer their scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palaestra.core.errors import DamagedFile
from palaestra.runs.files import read_json, write_json

CHECKOUTS = ".checkouts.json"  # in the folder of the runs
MAX_CHECKOUTS = 20  # the newest are kept


def known_checkouts(runs_root: Path) -> list[Path]:
    """The newest first; those that are gone are left out."""
    try:
        data: Any = read_json(runs_root / CHECKOUTS) if (runs_root / CHECKOUTS).is_file() else []
    except DamagedFile:
        data = []
    named = [Path(one) for one in data if isinstance(one, str)] if isinstance(data, list) else []
    return [path for path in named if path.is_dir()]


def remember_checkout(runs_root: Path, checkout: Path) -> None:
    checkout = checkout.expanduser().absolute()
    known = known_checkouts(runs_root)
    if known[:1] == [checkout]:
        return
    newest = [checkout, *(one for one in known if one != checkout)]
    runs_root.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(runs_root / CHECKOUTS, [str(path) for path in newest[:MAX_CHECKOUTS]])


def remember_checkout_of(runs_root: Path, script: Path) -> None:
    """Only a repository counts: the folder of a single file may be somebody's home."""
    repository = next((folder for folder in script.parents if (folder / ".git").exists()), None)
    if repository is not None:
        remember_checkout(runs_root, repository)
