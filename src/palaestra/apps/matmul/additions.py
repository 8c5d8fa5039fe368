"""How many additions a scheme takes, written out plainly and after sums that recur are made once."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from palaestra.apps.matmul.straight_line import plain_program, scheme_programs

if TYPE_CHECKING:
    from palaestra.apps.matmul.factorization import Factorization


@dataclass(frozen=True)
class Additions:
    naive: int
    eliminated: int  # greedy: an upper bound of what is possible


def count_additions(claim: Factorization, tries: int = 4, ends: float = inf) -> Additions:
    """Sums of entries of A, sums of entries of B, sums of products; fewer tries when `ends` comes first."""
    naive = sum(plain_program(table).additions for table in (claim.u, claim.v, claim.w.T))
    return Additions(naive, scheme_programs(claim, tries, ends).additions)
