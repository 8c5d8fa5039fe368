"""`palaestra discoveries import FILE|FOLDER…`: verifies schemes of files and adds them to the archive."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.schemes.archive import Archive, Discovery, Provenance
from palaestra.apps.matmul.schemes.fields import Field, parse_field
from palaestra.apps.matmul.schemes.known_ranks import compare_with_known
from palaestra.apps.matmul.schemes.rings import holding_fields
from palaestra.apps.matmul.schemes.scheme_files import MAX_SCHEME_BYTES, SUFFIXES, iterate_schemes
from palaestra.apps.matmul.verify import verify_any
from palaestra.core.errors import NotFound, PalaestraError
from palaestra.runs.files import read_bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from palaestra.apps.matmul.schemes.factorization import Factorization
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization

ADDITION_SECONDS = 0.5  # of eliminating common subexpressions in each scheme, after a first try
MAX_NPZ_BYTES = 256 << 20
LICENSE_NAMES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "COPYING")
MAX_LICENSE_CHARACTERS = 80


@dataclass(frozen=True)
class ImportSettings:
    source: str = ""  # a name, paper or address
    license: str = ""  # empty: the first line of a licence file beside or above the scheme
    field: Field | None = None  # the only field to try
    verify_only: bool = False


@dataclass(frozen=True)
class ImportedScheme:
    """One scheme of a file: verified and archived, or refused with the reason."""

    name: str  # the file, and the key of the scheme in it
    format: str = ""
    field: str = ""
    holds_over: tuple[str, ...] = ()
    rank: int | None = None
    known: int | None = None  # the best known rank of the field
    comparison: str = ""
    id: str = ""  # in the archive
    is_new: bool = False
    refusal: str = ""


def import_files(
    paths: Sequence[Path], archive: Archive, settings: ImportSettings, report: Callable[[ImportedScheme], None]
) -> list[ImportedScheme]:
    """Imports all schemes of files and folders; an unreadable file or a wrong scheme does not stop the others."""
    found = []
    for path, root in scheme_paths(paths):
        for scheme in import_file(path, root, archive, settings):
            report(scheme)
            found.append(scheme)
    return found


def scheme_paths(paths: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Each scheme file with the folder in which a licence is looked for; links inside a folder are not followed."""
    for path in paths:
        if not path.exists():
            raise NotFound(f"The file does not exist: {path}.")
        if not path.is_dir():
            yield path, path.parent
            continue
        inside = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and not file.is_symlink())
        if not inside:
            raise NotFound(f"{path} contains no scheme files.", f"Known suffixes: {', '.join(SUFFIXES)}.")
        yield from ((file, path) for file in inside if file.is_file())


def import_file(path: Path, root: Path, archive: Archive, settings: ImportSettings) -> Iterator[ImportedScheme]:
    origin: Provenance | None = None
    try:
        for key, readings in iterate_schemes(path, settings.field):
            origin = origin or _provenance(path, root, settings)
            yield _import_scheme(f"{path}:{key}" if key else str(path), readings, archive, origin, settings)
    except PalaestraError as error:
        yield ImportedScheme(str(path), refusal=str(error))


def archive_imported(
    proved: VerifiedFactorization, name: str, archive: Archive, origin: Provenance
) -> tuple[Discovery, bool]:
    """Adds a verified scheme of a file to the archive; the entry, and whether it is new."""
    now = time.time()
    made = Provenance(**{**vars(origin), "imported_file": name, "found_at": now})
    return archive.add(proved, made, time.monotonic() + ADDITION_SECONDS)


def import_one(path: Path, key: str, archive: Archive) -> Discovery:
    """The archive's entry of one scheme of a file, added if it is not there. Raises `NotAnAlgorithm`."""
    for name, readings in iterate_schemes(path):
        if name == key or not key:
            origin = _provenance(path, path.parent, ImportSettings())
            return archive_imported(verify_any(readings), f"{path}:{name}" if name else str(path), archive, origin)[0]
    raise NotFound(f"{path} has no scheme '{key}'.", "See its keys: palaestra verify FILE")


def parse_import_field(text: str) -> Field | None:
    return parse_field(text) if text else None


def _import_scheme(
    name: str, readings: list[Factorization], archive: Archive, origin: Provenance, settings: ImportSettings
) -> ImportedScheme:
    try:
        proved = verify_any(readings)
    except PalaestraError as error:
        return ImportedScheme(name, str(readings[0].format), rank=readings[0].rank, refusal=str(error))
    entry, is_new = (None, False) if settings.verify_only else archive_imported(proved, name, archive, origin)
    known = compare_with_known(proved)
    return ImportedScheme(
        name,
        str(proved.format),
        str(proved.field),
        tuple(map(str, holding_fields(proved.claim))),
        proved.rank,
        known.known,
        str(known.comparison),
        entry.file.stem if entry else "",
        is_new,
    )


def _provenance(path: Path, root: Path, settings: ImportSettings) -> Provenance:
    content = read_bounded(path, max(MAX_SCHEME_BYTES, MAX_NPZ_BYTES))
    facts: dict[str, Any] = {"run": "", "method": "import", "seed": 0, "step": 0, "wall_seconds": 0.0}
    return Provenance(
        **facts,
        cpu_seconds=0.0,
        found_at=0.0,
        origin="imported",
        source=settings.source,
        license=settings.license or find_license(path, root),
        imported_sha256=hashlib.sha256(content).hexdigest(),
    )


def find_license(path: Path, root: Path) -> str:
    """The first line of the nearest licence file from the scheme's folder up to `root`; empty if there is none."""
    folders = [folder for folder in path.parents if folder == root or root in folder.parents]
    for folder in folders:
        for name in LICENSE_NAMES:
            file = folder / name
            if file.is_file() and not file.is_symlink():
                with file.open(encoding="utf-8", errors="replace") as stream:
                    lines = [stream.readline(MAX_LICENSE_CHARACTERS).strip() for _ in range(5)]
                return next((line for line in lines if line), "")
    return ""
