"""From what a user types to the one discovery that is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.apps.matmul.archive import Archive, Discovery, sound_entries
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import SHAPE, parse_format
from palaestra.core.errors import NotFound, did_you_mean
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from pathlib import Path

LEAST_LETTERS = 4  # of a fingerprint
SHOWN = 6


def select_discovery(word: str, runs_root: Path) -> Discovery:
    """An id, the beginning of a fingerprint, a run that found one, or a format: its best for numbers."""
    entries = sound_entries(Archive(runs_root))
    if not entries:
        raise NotFound("Nothing was found here yet.", "Try: palaestra discover 2x2x2 field=z seconds=1")
    if SHAPE.fullmatch(word.strip().lower()):
        return _best_of_format(word, entries)
    found = [entry for entry in entries if entry.file.stem == word]
    if not found and len(word) >= LEAST_LETTERS:
        found = [entry for entry in entries if entry.fingerprint.startswith(word.lower())]
    if not found:
        run = RunStore(runs_root).find(word)
        found = [entry for entry in entries if run is not None and entry.provenance.get("run") == run.id]
    if not found:
        known = [entry.file.stem for entry in entries]
        raise NotFound(f"No discovery is called '{word}'.", did_you_mean(word, known) or "See: palaestra discoveries")
    if len(found) > 1:
        listed = ", ".join(entry.file.stem for entry in found[:SHOWN])
        raise NotFound(f"'{word}' could be any of {len(found)} discoveries: {listed}.", "Type the whole id.")
    return found[0]


def _best_of_format(word: str, entries: list[Discovery]) -> Discovery:
    """The fewest multiplications, then the fewest additions; schemes for numbers before those for bits."""
    format_ = parse_format(word)
    found = [entry for entry in entries if entry.scheme.format.ascending == format_.ascending]
    if not found:
        raise NotFound(f"No scheme for {format_} was found here yet.", f"Try: palaestra discover {format_} field=z")
    return min(
        found, key=lambda one: (one.scheme.field is Field.GF2, one.scheme.rank, one.additions_eliminated, one.file.name)
    )
