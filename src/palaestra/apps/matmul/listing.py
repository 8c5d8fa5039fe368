"""`palaestra discoveries [FORMAT]`: what was found here, each beside the best known rank of its own field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.catalogue import CATALOGUE
from palaestra.apps.matmul.known_ranks import as_of
from palaestra.core.command import Answer
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace

COLUMNS = ("format", "field", "rank", "known", "verdict", "additions", "after CSE", "run", "fingerprint", "canonical")
KEYS = (
    "format",
    "field",
    "rank",
    "known",
    "comparison",
    "additions_naive",
    "additions_eliminated",
    "run",
    "fingerprint",
)
LETTERS = 12  # of the canonical form's word, in the table; --json has all of them
NO_FORM = "-"  # too many symmetries of its own: found again, it is recognised by another way


def list_discoveries(arguments: Namespace) -> Answer:
    listing = CATALOGUE.listing(runs_root(), arguments.format or "")
    data: dict[str, Any] = {**listing}
    found, damaged = listing["discoveries"], listing["damaged"]
    rows = tuple(_row({**one}) for one in found)
    notes = (*damaged, f"Known ranks as of {as_of()}, non-commutative, each of the same field.")
    if not found:
        notes = (*damaged, "Nothing was found yet. Try: palaestra discover 2x2x2 seconds=1")
    if arguments.format and found:
        data["entries"] = [CATALOGUE.entry(runs_root(), one["id"]) for one in found]
    return Answer(data, COLUMNS if found else (), rows, notes)


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    return (*(one[key] for key in KEYS), one["canonical"][:LETTERS] or NO_FORM)
