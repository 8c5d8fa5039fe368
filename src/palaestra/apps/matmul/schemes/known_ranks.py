"""Table of the best known ranks by format and field; a scheme is compared within its own field only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from palaestra.apps.matmul.schemes.factorization import Format, parse_format
from palaestra.apps.matmul.schemes.fields import Field

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization
    from palaestra.core.catalogue import KnownRank


class Comparison(StrEnum):
    MATCHES = "matches"
    ABOVE = "above"  # more multiplications than the best known scheme
    BELOW = "below"  # fewer than the table: check twice
    UNKNOWN = "unknown"  # the table does not have the format


@dataclass(frozen=True)
class RankComparison:
    """A rank compared with the table."""

    comparison: Comparison
    known: int | None  # the best known rank over the same field
    as_of: str  # year and month of the table


# Schemes over z are valid over these fields too, and schemes over q over qi.
DERIVED = {Field.GF2: Field.Z, Field.Z3: Field.Z, Field.ZI: Field.Z, Field.QI: Field.Q}


def known_rank(format_: Format, field: Field) -> int | None:
    """The best known rank of a format, in any order of its sides; None if unknown."""
    row = _table()["ranks"].get(str(format_.ascending), {})
    rank: int | None = row.get(str(field), row.get(str(DERIVED.get(field, field))))
    return rank


def known_additions(format_: Format, field: Field) -> int | None:
    """The fewest known additions after CSE, at the best rank over zt; None for other fields."""
    row = _table()["ranks"].get(str(format_.ascending), {})
    additions: int | None = row.get("additions") if field == "zt" else None
    return additions


def known_table() -> list[KnownRank]:
    """All formats with their ranks by field."""
    return [
        cast("KnownRank", {"gf2": row["z"], **row, "format": name, "naive": parse_format(name).naive_rank})
        for name, row in _table()["ranks"].items()
    ]


def known_formats() -> list[str]:
    return list(_table()["ranks"])


def compare_with_known(proved: VerifiedFactorization) -> RankComparison:
    """Compares the rank of a verified scheme with the best known one of its field."""
    known = known_rank(proved.format, proved.field)
    return RankComparison(_compare_ranks(proved.rank, known), known, as_of())


def as_of() -> str:
    return str(_table()["as_of"])


def _compare_ranks(rank: int, known: int | None) -> Comparison:
    if known is None:
        return Comparison.UNKNOWN
    if rank == known:
        return Comparison.MATCHES
    return Comparison.ABOVE if rank > known else Comparison.BELOW


@cache
def _table() -> dict[str, Any]:
    text = files("palaestra.apps.matmul.schemes").joinpath("known_ranks.json").read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
