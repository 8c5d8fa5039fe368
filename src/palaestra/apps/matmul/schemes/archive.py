"""Schemes that were found and proved, one file each; what is read is proved again."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.schemes.canonical_form import canonical_hash
from palaestra.apps.matmul.schemes.fingerprint import fingerprint
from palaestra.apps.matmul.schemes.scheme_files import decode_scheme, encode_scheme
from palaestra.apps.matmul.schemes.straight_line import count_additions
from palaestra.apps.matmul.schemes.symmetry import are_equivalent
from palaestra.apps.matmul.schemes.verification import VerifiedFactorization, verify
from palaestra.core.errors import DamagedFile, PalaestraError
from palaestra.runs.files import read_json, write_json
from palaestra.runs.schema import stamped, unstamped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA_VERSION = 1
FOLDER = "discoveries"  # beside the runs
TRIES = 24  # to find the fewest additions


@dataclass(frozen=True)
class Provenance:
    """Where a scheme comes from."""

    run: str  # id; empty when it was brought in
    method: str  # "flip", "agent"; "… and lift" when it was found modulo 2
    seed: int
    step: int  # flips or moves made until then
    wall_seconds: float
    cpu_seconds: float
    found_at: float  # seconds since 1970
    parents: tuple[str, ...] = ()  # fingerprints of schemes it was grown from
    demonstrations: tuple[str, ...] = ()  # schemes that a learner was shown
    machine: dict[str, Any] = field(default_factory=dict)  # hardware and versions
    origin: str = "discovered"  # "reproduced": by a learner that was shown a scheme of that rank, or a better one


@dataclass(frozen=True, eq=False)
class Discovery:
    scheme: VerifiedFactorization
    fingerprint: str
    canonical: str  # the word of its canonical form; empty when it has none within reach
    additions_naive: int
    additions_eliminated: int
    provenance: dict[str, Any]
    file: Path


class Archive:
    def __init__(self, runs_root: Path) -> None:
        self.path = runs_root / FOLDER

    def add(
        self, scheme: VerifiedFactorization, provenance: Provenance, deadline: float = inf
    ) -> tuple[Discovery, bool]:
        """The entry, and whether it is new; a scheme that is known from another side is not.

        After `ends` (of time.monotonic) no more is tried to count fewer additions.
        """
        mark, word = fingerprint(scheme), canonical_hash(scheme)
        stem = f"{scheme.format.ascending}-{scheme.field}-r{scheme.rank}-{mark}"
        kin = sorted(self.path.glob(f"{stem}*.json"))
        for file in kin:
            known = self.read(file)
            if _is_this(known, scheme, word):
                return self._lighter(known, scheme, provenance, deadline), False
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        additions = count_additions(scheme.claim, TRIES, deadline)
        file = self.path / (f"{stem}-{len(kin) + 1}.json" if kin else f"{stem}.json")
        entry = Discovery(scheme, mark, word, additions.naive, additions.eliminated, asdict(provenance), file)
        write_json(file, stamped(_encode(entry), SCHEMA_VERSION))
        return entry, True

    def _lighter(
        self, known: Discovery, scheme: VerifiedFactorization, provenance: Provenance, deadline: float
    ) -> Discovery:
        """The same scheme seen from bases in which it takes fewer additions stands in the entry from then on."""
        additions = count_additions(scheme.claim, TRIES, deadline)
        is_alike = known.scheme.field is scheme.field
        if not is_alike or additions.eliminated >= known.additions_eliminated:
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
        data = unstamped(read_json(file), SCHEMA_VERSION, file)
        try:
            scheme = verify(decode_scheme(data["scheme"]))
            counts = data["additions"]
            marks = fingerprint(scheme), canonical_hash(scheme)
            return Discovery(scheme, *marks, counts["naive"], counts["eliminated"], dict(data["provenance"]), file)
        except PalaestraError as error:
            raise DamagedFile(f"{file} is not to be trusted: {error.message}", "Remove it.") from error
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFile(f"{file} does not describe a discovery ({error!r}).", "Remove it.") from error

    def entries(self) -> Iterator[Discovery | DamagedFile]:
        """All of them; one that is damaged is named, and hides no other."""
        for file in sorted(self.path.glob("*.json")):
            try:
                yield self.read(file)
            except DamagedFile as error:
                yield error


def _is_this(known: Discovery, scheme: VerifiedFactorization, word: str) -> bool:
    """By the canonical form where both have one; else a symmetry is looked for."""
    return known.canonical == word if known.canonical and word else are_equivalent(known.scheme, scheme)


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
