"""Builds the best scheme for a format from known ones: joined, multiplied, projected, with naive schemes for the rest.

A search for 4x4x4 that starts from the naive scheme stays far above the best known rank; one that starts from a good
3x4x4 scheme, extended, does not. Ranks are planned first for all formats; only the chosen scheme is then made.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from palaestra.apps.matmul.schemes.composition import SIDES, join_schemes, project, tensor_product
from palaestra.apps.matmul.schemes.factorization import Factorization, Format, naive_factorization
from palaestra.apps.matmul.schemes.rings import can_convert, convert
from palaestra.apps.matmul.schemes.transformations import permute_sides
from palaestra.apps.matmul.schemes.verification import VerifiedFactorization, verify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.apps.matmul.schemes.fields import Field


@dataclass(frozen=True, eq=False)
class Start:
    """A scheme, and the fingerprints of the schemes it was built from."""

    scheme: VerifiedFactorization
    parents: tuple[str, ...]


def build_best_start(format_: Format, field: Field, known: Iterable[tuple[str, VerifiedFactorization]]) -> Start:
    """The scheme of lowest rank over `field` that can be built from known ones (by fingerprint) and naive ones.

    Known schemes that are not valid over the field are ignored.
    """
    best: Known = {}
    for digest, proved in known:
        if can_convert(proved.claim, field):
            claim = convert(proved.claim, field)
            key = claim.format.ascending
            if key not in best or claim.rank < best[key][1].rank:
                best[key] = (digest, claim)
    _project_down(format_.ascending, best)
    builder = _Builder(best, field)
    claim, parents = builder.build(format_)
    return Start(verify(claim), tuple(sorted(parents)))


Known = dict[Format, tuple[str, Factorization]]  # by format with ascending sides: fingerprint and scheme


@dataclass(frozen=True)
class _Plan:
    """How the best scheme for a format is made: `parts` are joined along `side`, or multiplied if there is none."""

    rank: int
    parts: tuple[Format, ...] = ()
    side: str = ""


class _Builder:
    def __init__(self, best: Known, field: Field) -> None:
        self._best = best
        self._field = field
        self._plans: dict[Format, _Plan] = {}

    def build(self, format_: Format) -> tuple[Factorization, frozenset[str]]:
        """The planned scheme, and the fingerprints of its parts."""
        plan = self._plan(format_.ascending)
        if not plan.parts:
            if format_.ascending not in self._best:
                return naive_factorization(format_, self._field), frozenset()
            digest, claim = self._best[format_.ascending]
            if claim.rank > plan.rank:
                return naive_factorization(format_, self._field), frozenset()
            return permute_sides(claim, format_), frozenset({digest})
        (first, one), (second, other) = (self.build(part) for part in plan.parts)
        made = join_schemes(first, second, plan.side) if plan.side else tensor_product(first, second)
        return permute_sides(made, format_), one | other

    def _plan(self, format_: Format) -> _Plan:
        """The best plan for a format with ascending sides."""
        if format_ in self._plans:
            return self._plans[format_]
        plan = _Plan(format_.naive_rank)
        if format_ in self._best:
            plan = min(plan, _Plan(self._best[format_][1].rank), key=lambda one: one.rank)
        for at, side in enumerate(SIDES):
            for cut in range(1, format_.sides[at] // 2 + 1):
                parts = _with_side(format_, at, format_.sides[at] - cut), _with_side(format_, at, cut)
                rank = sum(self._plan(part.ascending).rank for part in parts)
                plan = plan if plan.rank <= rank else _Plan(rank, parts, side)
        for inner in product(*(_divisors(side) for side in format_.sides)):
            outer = tuple(side // part for side, part in zip(format_.sides, inner, strict=True))
            if max(inner) > 1 and max(outer) > 1:
                parts = Format(*outer), Format(*inner)
                rank = self._plan(parts[0].ascending).rank * self._plan(parts[1].ascending).rank
                plan = plan if plan.rank <= rank else _Plan(rank, parts)
        self._plans[format_] = plan
        return plan


def _divisors(side: int) -> list[int]:
    return [part for part in range(1, side + 1) if side % part == 0]


def _project_down(target: Format, best: Known) -> None:
    """Adds projections of larger schemes for all formats down to the target, the largest first."""
    pending = sorted((one for one in best if one != target), key=lambda one: one.naive_rank)
    while pending:
        digest, claim = best[pending.pop()]
        for at, side in enumerate(claim.format.sides):
            smaller = _with_side(claim.format, at, max(side - 1, 1)).ascending
            if side < 2 or any(length < other for length, other in zip(smaller.sides, target.sides, strict=True)):
                continue
            made = project(claim, at)
            known = best[smaller][1].rank if smaller in best else smaller.naive_rank
            if made.rank < known:
                best[smaller] = (digest, made)
                pending.append(smaller)
                pending.sort(key=lambda one: one.naive_rank)


def _with_side(format_: Format, at: int, length: int) -> Format:
    sides = list(format_.sides)
    sides[at] = length
    return Format(sides[0], sides[1], sides[2])
