"""From what a user types to the one run that is meant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.core.errors import NotFound, did_you_mean
from palaestra.runs.directory import RunDirectory
from palaestra.runs.identity import is_run_id
from palaestra.runs.names import RunNames

if TYPE_CHECKING:
    from palaestra.core.run import RunRecord

SHOWN = 8


def select(selector: str, records: list[RunRecord], root: Path) -> RunDirectory:
    """Among `records`, newest first. Exact words go before beginnings: `latest`, id, name, beginning of an id, path."""
    if selector == "latest":
        return _latest(records, root)
    by_id = [record for record in records if record.id == selector.upper()]
    by_name = [record for record in records if record.name == selector]
    by_prefix = [record for record in records if selector and record.id.startswith(selector.upper())]
    found = by_id or by_name or by_prefix
    if len(found) > 1:
        raise _ambiguous(selector, found)
    if found:
        return RunDirectory(root / found[0].id)
    return _at_path(selector) or _nothing(selector, records, root)


def _latest(records: list[RunRecord], root: Path) -> RunDirectory:
    if not records:
        raise NotFound(f"There are no runs in {root} yet.", "Start one: palaestra train cartpole")
    return RunDirectory(root / records[0].id)


def _at_path(selector: str) -> RunDirectory | None:
    """Anything with a separator, or the directory itself; never a bare word that happens to be a file here.

    `runs/NAME` will do as well as `runs/by-name/NAME`.
    """
    if os.sep not in selector and selector != ".":
        return None
    try:
        path = Path(selector).expanduser().resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    named = RunNames(path.parent).find(path.name)
    directory = RunDirectory(path.parent / named if named else path)
    return directory if is_run_id(directory.id) and directory.status_file.is_file() else None


def _ambiguous(selector: str, found: list[RunRecord]) -> NotFound:
    listed = ", ".join(f"{record.id} ({record.name})" for record in found[:SHOWN])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return NotFound(f"'{selector}' could be any of {len(found)} runs: {listed}{more}.", "Type more of the id.")


def _nothing(selector: str, records: list[RunRecord], root: Path) -> RunDirectory:
    names = [record.name for record in records]
    hint = did_you_mean(selector, [*names, *(record.id for record in records), "latest"])
    hint = hint or (f"Newest: {', '.join(names[:SHOWN])}." if names else "There are no runs there yet.")
    raise NotFound(f"No run is called '{selector}' in {root}.", hint)
