"""Finds schemes by name: an archived discovery, or a scheme in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.apps.matmul.importing import import_one
from palaestra.apps.matmul.schemes.archive import Archive, Discovery, readable_entries
from palaestra.apps.matmul.schemes.factorization import SHAPE, parse_format
from palaestra.apps.matmul.schemes.fingerprint import fingerprint
from palaestra.apps.matmul.schemes.scheme_files import SUFFIXES, read_schemes
from palaestra.apps.matmul.verify import verify_any
from palaestra.core.errors import NotFound, did_you_mean
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization


def find_scheme_file(word: str) -> tuple[Path, str] | None:
    """The path and the key of FILE or FILE:KEY; None if the word is no file."""
    path, colon, key = word.rpartition(":")
    if colon and Path(path).suffix in SUFFIXES and Path(path).is_file():
        return Path(path), key
    if Path(word).suffix not in SUFFIXES:
        return None
    if not Path(word).is_file():
        raise NotFound(f"The file does not exist: {word}.")
    return Path(word), ""


def is_scheme_file(word: str) -> bool:
    return Path(word.rpartition(":")[0] or word).is_file() or Path(word).is_file()


def load_scheme(word: str, runs_root: Path) -> tuple[VerifiedFactorization, str]:
    """A verified scheme of a file or of the archive, and its fingerprint."""
    file = find_scheme_file(word)
    if file is None:
        entry = select_discovery(word, runs_root)
        return entry.scheme, entry.fingerprint
    path, wanted = file
    schemes = read_schemes(path)
    if wanted not in schemes and (wanted or len(schemes) != 1):
        raise NotFound(f"{path} has no scheme '{wanted}'.", f"Its schemes: {', '.join(list(schemes)[:SHOWN])}, …")
    proved = verify_any(schemes[wanted] if wanted in schemes else next(iter(schemes.values())))
    return proved, fingerprint(proved)


def select_or_import(word: str, runs_root: Path) -> Discovery:
    """An archived discovery; a scheme of a file is added to the archive first."""
    file = find_scheme_file(word)
    return select_discovery(word, runs_root) if file is None else import_one(*file, Archive(runs_root))


MIN_LETTERS = 4  # of a fingerprint prefix
SHOWN = 6


def select_discovery(word: str, runs_root: Path) -> Discovery:
    """Finds a discovery by id, fingerprint prefix, the run that found it, or format (the best over numbers)."""
    entries = readable_entries(Archive(runs_root))
    if not entries:
        raise NotFound("There are no discoveries.", "Try: palaestra discover 2x2x2 field=z seconds=1")
    if SHAPE.fullmatch(word.strip().lower()):
        return _best_of_format(word, entries)
    found = [entry for entry in entries if entry.file.stem == word]
    if not found and len(word) >= MIN_LETTERS:
        found = [entry for entry in entries if entry.fingerprint.startswith(word.lower())]
    if not found:
        run = RunStore(runs_root).find(word)
        found = [entry for entry in entries if run is not None and entry.provenance.get("run") == run.id]
    if not found:
        known = [entry.file.stem for entry in entries]
        raise NotFound(f"No discovery named '{word}'.", did_you_mean(word, known) or "See: palaestra discoveries")
    if len(found) > 1:
        listed = ", ".join(entry.file.stem for entry in found[:SHOWN])
        raise NotFound(f"'{word}' is ambiguous, {len(found)} discoveries match: {listed}.", "Use the full id.")
    return found[0]


def _best_of_format(word: str, entries: list[Discovery]) -> Discovery:
    """The fewest multiplications, then the fewest additions; schemes over real numbers first."""
    format_ = parse_format(word)
    found = [entry for entry in entries if entry.scheme.format.ascending == format_.ascending]
    if not found:
        raise NotFound(f"There is no discovery for {format_}.", f"Try: palaestra discover {format_} field=z")
    return min(found, key=_order)


def _order(entry: Discovery) -> tuple[bool, bool, int, int, str]:
    field = entry.scheme.field
    is_modular = bool(field.characteristic)
    return is_modular, field.is_complex, entry.scheme.rank, entry.additions_eliminated, entry.file.name
