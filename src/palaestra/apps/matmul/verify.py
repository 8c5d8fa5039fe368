"""`palaestra verify FILE…`: verifies each scheme of each file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.schemes.fields import Field, parse_field
from palaestra.apps.matmul.schemes.fingerprint import fingerprint
from palaestra.apps.matmul.schemes.known_ranks import compare_with_known
from palaestra.apps.matmul.schemes.scheme_files import read_schemes
from palaestra.apps.matmul.schemes.verification import (
    NotAnAlgorithm,
    VerifiedFactorization,
    count_wrong_entries,
    verify,
)
from palaestra.core.app import CommandResult
from palaestra.core.errors import PalaestraError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.apps.matmul.schemes.factorization import Factorization

COLUMNS = ("file", "format", "field", "rank", "best known", "verdict")


def verify_files(arguments: Namespace) -> CommandResult:
    field = parse_field(arguments.field) if arguments.field else None
    found = [entry for name in arguments.files for entry in verify_file(Path(name), field)]
    refused = [entry for entry in found if not entry["verified"]]
    rows = tuple(
        tuple(entry.get(key) for key in ("file", "format", "field", "rank", "known", "message")) for entry in found
    )
    notes = (f"{len(refused)} of {len(found)} schemes failed verification.",) if refused else ()
    return CommandResult({"schemes": found}, COLUMNS, rows, notes, exit_code=1 if refused else 0)


def verify_file(path: Path, field: Field | None) -> list[dict[str, Any]]:
    """The results of one file; an unreadable file is one failed result."""
    try:
        schemes = read_schemes(path, field)
    except PalaestraError as error:
        return [{"file": str(path), "verified": False, "message": str(error)}]
    return [verify_scheme(f"{path}:{key}" if key else str(path), readings) for key, readings in schemes.items()]


def verify_scheme(name: str, readings: Sequence[Factorization]) -> dict[str, Any]:
    try:
        proved = verify_any(readings)
    except NotAnAlgorithm as error:
        claim = readings[0]
        return {"file": name, "format": str(claim.format), "verified": False, "message": str(error)}
    known = compare_with_known(proved)
    return {
        "file": name,
        "format": str(proved.format),
        "field": str(proved.field),
        "rank": proved.rank,
        "largest_coefficient": proved.claim.largest_coefficient,
        "fingerprint": fingerprint(proved),
        "known": known.known,
        "comparison": str(known.comparison),
        "verified": True,
        "message": f"verified ({proved.field.meaning})",
    }


def verify_any(readings: Sequence[Factorization]) -> VerifiedFactorization:
    """The first reading that is valid; `NotAnAlgorithm` with the best residual if none is."""
    refusals = []
    for reading in readings:
        try:
            return verify(reading)
        except NotAnAlgorithm as error:
            refusals.append((reading.field, error))
    if len(readings) == 1:
        raise refusals[0][1]
    tried = ", ".join(dict.fromkeys(str(field) for field, _ in refusals))
    wrong = min((count_wrong_entries(reading) for reading in readings if reading.field is Field.GF2), default=None)
    nearest = "" if wrong is None else f" Modulo 2 the best reading is wrong in {wrong} entries."
    raise NotAnAlgorithm(
        f"The scheme does not multiply {readings[0].format} matrices over any of the fields {tried}, "
        f"with the third factor as it is or transposed.{nearest}",
        "Check that the file is complete and the format is right.",
    )
