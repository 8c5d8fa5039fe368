"""`palaestra discoveries [FORMAT]`: what was found here, each beside the best known rank of its own field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.archive import Archive, Discovery
from palaestra.apps.matmul.format import parse_format
from palaestra.apps.matmul.known_ranks import as_of, compare
from palaestra.contracts.command import Answer
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace

COLUMNS = ("format", "field", "rank", "known", "verdict", "additions", "after CSE", "run", "fingerprint")
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


def list_discoveries(arguments: Namespace) -> Answer:
    wanted = parse_format(arguments.format).ascending if arguments.format else None
    found, damaged = [], []
    for entry in Archive(runs_root()).entries():
        if not isinstance(entry, Discovery):
            damaged.append(str(entry))
        elif wanted is None or entry.scheme.format.ascending == wanted:
            found.append(describe(entry))
    found.sort(key=lambda one: (one["format"], one["field"], one["rank"]))
    rows = tuple(tuple(one[key] for key in KEYS) for one in found)
    notes = (*damaged, f"Known ranks as of {as_of()}, non-commutative, each of the same field.")
    if not found:
        notes = (*damaged, "Nothing was found yet. Try: palaestra discover 2x2x2 seconds=1")
    return Answer(
        {"discoveries": found, "damaged": damaged, "known_as_of": as_of()}, COLUMNS if found else (), rows, notes
    )


def describe(entry: Discovery) -> dict[str, Any]:
    place = compare(entry.scheme)
    return {
        "format": str(entry.scheme.format),
        "field": str(entry.scheme.field),
        "rank": entry.scheme.rank,
        "known": place.known,
        "comparison": str(place.verdict),
        "additions_naive": entry.additions_naive,
        "additions_eliminated": entry.additions_eliminated,
        "fingerprint": entry.fingerprint,
        "run": entry.provenance.get("run", ""),
        "seed": entry.provenance.get("seed"),
        "file": str(entry.file),
    }
