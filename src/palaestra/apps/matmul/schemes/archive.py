"""The archive of discoveries: one JSON file for each verified scheme; reading verifies again."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.schemes.canonical_form import canonical_hash
from palaestra.apps.matmul.schemes.fingerprint import fingerprint
from palaestra.apps.matmul.schemes.rings import holding_fields
from palaestra.apps.matmul.schemes.scheme_files import decode_scheme, encode_scheme
from palaestra.apps.matmul.schemes.straight_line import Additions, count_additions, count_pairs
from palaestra.apps.matmul.schemes.symmetry import are_equivalent
from palaestra.apps.matmul.schemes.verification import VerifiedFactorization, verify
from palaestra.core.errors import DamagedFile, PalaestraError
from palaestra.runs.files import read_json, stamped, unstamped, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palaestra.apps.matmul.schemes.fields import Field

SCHEMA_VERSION = 1
FOLDER = "discoveries"  # beside the runs
TRIES = 24  # of the CSE
MAX_ELIMINATED_PAIRS = 60_000  # of terms in all sums; up to it subexpressions are eliminated, in about 10 s
MAX_JSON_BYTES = 64 << 20


@dataclass(frozen=True)
class Provenance:
    """Origin of a scheme."""

    run: str  # id; empty if no run found the scheme
    method: str  # "flip", "agent", "import", or a verb such as "project"; "… and lift" if it was lifted
    seed: int
    step: int  # flips or moves until it was found
    wall_seconds: float
    cpu_seconds: float
    found_at: float  # seconds since 1970
    parents: tuple[str, ...] = ()  # fingerprints of the schemes it was built from
    demonstrations: tuple[str, ...] = ()  # schemes that the agent was shown
    machine: dict[str, Any] = field(default_factory=dict)  # hardware and software versions
    origin: str = "discovered"  # or "reproduced": the agent was shown a scheme of this rank or lower; or "imported"
    source: str = ""  # of an imported scheme: a name, paper or address
    license: str = ""
    imported_file: str = ""  # its path, and its key if the file has several schemes
    imported_sha256: str = ""  # of the file


@dataclass(frozen=True, eq=False)
class Discovery:
    scheme: VerifiedFactorization
    fingerprint: str
    canonical: str  # digest of the canonical form; empty if there is none
    additions_naive: int
    additions_eliminated: int
    provenance: dict[str, Any]
    file: Path

    @property
    def holds_over(self) -> tuple[Field, ...]:
        return holding_fields(self.scheme.claim)


class Archive:
    def __init__(self, runs_root: Path) -> None:
        self.path = runs_root / FOLDER

    def add(
        self, scheme: VerifiedFactorization, provenance: Provenance, deadline: float = inf
    ) -> tuple[Discovery, bool]:
        """Returns the entry and whether it is new; equivalent schemes share one entry.

        After `deadline` (time.monotonic) the CSE makes no further tries.
        """
        digest, canonical = fingerprint(scheme), canonical_hash(scheme)
        stem = f"{scheme.format.ascending}-{scheme.field}-r{scheme.rank}-{digest}"
        candidates = sorted(self.path.glob(f"{stem}*.json"))
        for file in candidates:
            known = self.read(file)
            if _is_same_scheme(known, scheme, canonical):
                return self._replace_if_lighter(known, scheme, provenance, deadline), False
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        additions = _count_additions(scheme, deadline)
        file = self.path / (f"{stem}-{len(candidates) + 1}.json" if candidates else f"{stem}.json")
        entry = Discovery(scheme, digest, canonical, additions.naive, additions.eliminated, asdict(provenance), file)
        write_json(file, stamped(_encode(entry), SCHEMA_VERSION))
        return entry, True

    def _replace_if_lighter(
        self, known: Discovery, scheme: VerifiedFactorization, provenance: Provenance, deadline: float
    ) -> Discovery:
        """Replaces the stored form if the new, equivalent one needs fewer additions."""
        additions = _count_additions(scheme, deadline)
        has_same_field = known.scheme.field is scheme.field
        if not has_same_field or additions.eliminated >= known.additions_eliminated:
            return known
        origin = {**known.provenance, "lighter_form": {"run": provenance.run, "found_at": provenance.found_at}}
        entry = replace(
            known,
            scheme=scheme,
            additions_naive=additions.naive,
            additions_eliminated=additions.eliminated,
            provenance=origin,
        )
        write_json(known.file, stamped(_encode(entry), SCHEMA_VERSION))
        return entry

    def read(self, file: Path) -> Discovery:
        data = unstamped(read_json(file, MAX_JSON_BYTES), SCHEMA_VERSION, file)
        try:
            scheme = verify(decode_scheme(data["scheme"]))
            counts = data["additions"]
            digests = str(data["fingerprint"]), str(data["canonical"])  # they only tell duplicates: not verified
            provenance = dict(data["provenance"])
            return Discovery(scheme, *digests, counts["naive"], counts["eliminated"], provenance, file)
        except PalaestraError as error:
            raise DamagedFile(f"Verification of {file} failed: {error.message}", "Remove the file.") from error
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFile(f"{file} is not a valid discovery ({error!r}).", "Remove the file.") from error

    def entries(self) -> Iterator[Discovery | DamagedFile]:
        """All entries; a damaged file yields its error."""
        for file in sorted(self.path.glob("*.json")):
            try:
                yield self.read(file)
            except DamagedFile as error:
                yield error


def _count_additions(scheme: VerifiedFactorization, deadline: float) -> Additions:
    """Without elimination for large dense schemes, where a single try takes minutes."""
    pairs = count_pairs(scheme.claim)
    return count_additions(scheme.claim, TRIES if pairs <= MAX_ELIMINATED_PAIRS else 0, deadline)


def _is_same_scheme(known: Discovery, scheme: VerifiedFactorization, canonical: str) -> bool:
    """Compares canonical forms where both exist; otherwise searches for a symmetry."""
    return known.canonical == canonical if known.canonical and canonical else are_equivalent(known.scheme, scheme)


def readable_entries(archive: Archive) -> list[Discovery]:
    return [entry for entry in archive.entries() if isinstance(entry, Discovery)]


def _encode(entry: Discovery) -> dict[str, Any]:
    return {
        "scheme": encode_scheme(entry.scheme.claim),
        "fingerprint": entry.fingerprint,
        "canonical": entry.canonical,
        "additions": {"naive": entry.additions_naive, "eliminated": entry.additions_eliminated},
        "provenance": entry.provenance,
    }
