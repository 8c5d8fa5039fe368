"""A search that climbs: smaller formats first, and each scheme that was found is extended to the next.

From the schoolbook's scheme a walk for 4x4x4 stays far above what is known; from a good 3x4x4 and a strip it does not.
A rung ends at the best known rank, or when nothing fell for a number of flips; what was found there stays on its shelf.
After the last rung the climb begins again with other dice: at the bottom, or on some rung with a scheme from the shelf
below, extended, or from the shelf above, cut down. Which 3x4x4 is extended matters more than how long. Where whole
numbers are wanted, only schemes that lift are extended or kept. For large square matrices, modulo 2, the climb begins
at the top, among schemes that can be turned (see `turning`), and seven of eight ascents are of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.schemes.bit_masks import Masks, can_turn, from_masks, to_masks
from palaestra.apps.matmul.schemes.composition import SIDES, join, projected
from palaestra.apps.matmul.schemes.factorization import Format, parse_format, schoolbook
from palaestra.apps.matmul.schemes.fields import Field, parse_field
from palaestra.apps.matmul.schemes.known_ranks import known_rank
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_search import (
    Rules,
    Search,
    advance,
    begin,
    begin_turning,
    best_of,
    decode_masks,
    decode_search,
    drop_schemes,
    encode_masks,
    encode_search,
    throw,
)
from palaestra.apps.matmul.search.flip_walk import IS_COMPILED
from palaestra.apps.matmul.search.lifting import OutOfTime, lift
from palaestra.core.errors import DamagedFile, PalaestraError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import ThreadPoolExecutor

    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization

LIFTED_COUNT = 64
# A lift takes seconds, and what was lifted when it was found is asked for again at the end.
_LIFTED: dict[tuple[Format, tuple[tuple[int, ...], ...]], VerifiedFactorization | None] = {}
DIRECT = 27  # products of the schoolbook: up to here a walk from there arrives at once
PATIENT = 16  # after so many ascents each rung gets more flips
RUNG_WORDS = 1000  # seeds of rungs lie beyond those of walkers
AGAIN_WORDS = 2000  # and the choice of where to begin again beyond those
SHELF = 8  # schemes kept for each rung
TURNS = 3  # rows that a turn counts for: ranks among schemes that can be turned move in such steps
OFTENER, SOONER, LONGER = 2, 4, 4  # there rows are split oftener, walkers start again sooner, and the search goes on


@dataclass(frozen=True)
class Climb:
    rungs: tuple[Format, ...]  # the last is what is wanted
    field: Field  # gf2; else what is kept and extended lifts
    seed: int
    search: Search  # on the present rung
    best: Masks  # for the last format, of all ascents
    rung: int = 0
    ascents: int = 0
    flips_before: int = 0  # of the searches that are done
    fallen_at: int = 0  # flips of the present search when its best last fell
    shelves: tuple[tuple[Masks, ...], ...] = ()  # for each rung the best that ascents left there

    @property
    def format(self) -> Format:
        return self.rungs[-1]

    @property
    def flips(self) -> int:
        return self.flips_before + self.search.flips

    @property
    def best_rank(self) -> int:
        return len(self.best)

    @property
    def is_on_top(self) -> bool:
        return self.rung == len(self.rungs) - 1


def rungs_to(format_: Format) -> tuple[Format, ...]:
    """Each is one longer in its largest side than the one before it."""
    found = [format_]
    while found[0].schoolbook_rank > DIRECT:
        sides = list(found[0].sides)
        sides[sides.index(max(sides))] -= 1
        found.insert(0, Format(sides[0], sides[1], sides[2]))
    return tuple(found)


def begin_climb(rungs: tuple[Format, ...], field: Field, seed: int, walkers: int, start: Masks | None = None) -> Climb:
    """`start`: a scheme for the first rung, instead of the schoolbook's."""
    best = start if start and len(rungs) == 1 else to_masks(schoolbook(rungs[-1], Field.GF2))
    climb = Climb(rungs, field, seed, begin(rungs[0], seed, walkers, start), best)
    return _turning(climb, 0) if may_turn(climb) and start is None else climb


def may_turn(climb: Climb) -> bool:
    return IS_COMPILED and len(climb.rungs) > 1 and climb.field is Field.GF2 and can_turn(climb.format)


def advance_climb(
    climb: Climb, rules: Rules, rung_flips: int, pool: ThreadPoolExecutor | None = None, ends: float = inf
) -> Climb:
    """One round; `rules.target` is that of the last rung. `OutOfTime` when a lift is not done at `ends`."""
    target = rules.target if climb.is_on_top else rung_target(climb)
    if climb.search.is_turning:
        period, patience = max(rules.plus_period // OFTENER, 1), rules.patience // SOONER
        rules = replace(rules, margin=rules.margin * TURNS, plus_period=period, patience=patience)
        rung_flips *= LONGER
    search = advance(climb.search, replace(rules, target=target), pool)
    has_fallen = search.best_rank < climb.search.best_rank
    climb = replace(climb, search=search, fallen_at=search.flips if has_fallen else climb.fallen_at)
    spent = search.flips - climb.fallen_at >= rung_flips * (1 + climb.ascents // PATIENT)
    if climb.is_on_top:
        better = [masks for masks in search.pool if search.rank_of(masks) < climb.best_rank]
        found, climb = _sound(climb, better, ends)
        climb = climb if found is None else replace(climb, best=found)
        may_start_again = spent and len(climb.rungs) > 1 and climb.best_rank > rules.target
        return _again(climb, ends) if may_start_again else climb
    if search.best_rank > target and not spent:
        return climb
    found, climb = _sound(climb, search.pool, ends)
    if found is None:  # none of them lifts
        return _moved(climb, climb.rung, climb.ascents + 1, None) if spent else climb
    climb = _shelved(climb, found)
    return _moved(climb, climb.rung + 1, climb.ascents, extended(found, *climb.rungs[climb.rung : climb.rung + 2]))


def best_so_far(climb: Climb, ends: float = inf) -> Masks:
    """Also when time ends on a lower rung: what was found there, extended to the format that is wanted."""
    try:
        return _best_extended(climb, ends)
    except OutOfTime:
        return climb.best


def _best_extended(climb: Climb, ends: float) -> Masks:
    found, _ = (None, climb) if climb.is_on_top else _sound(climb, [climb.search.best, *climb.search.pool], ends)
    if found is None:
        return climb.best
    for given, wanted in pairwise(climb.rungs[climb.rung :]):
        found = extended(found, given, wanted)
    is_good = len(found) < climb.best_rank and proved_over(climb.field, found, climb.format, ends) is not None
    return found if is_good else climb.best


def rung_target(climb: Climb) -> int:
    return known_rank(climb.search.format, climb.field) or 0


def extended(masks: Masks, given: Format, wanted: Format) -> Masks:
    """The schoolbook's scheme for the strip that is missing is added."""
    at = next(k for k in range(3) if given.sides[k] != wanted.sides[k])
    sides = list(wanted.sides)
    sides[at] -= given.sides[at]
    strip = schoolbook(Format(sides[0], sides[1], sides[2]), Field.GF2)
    return to_masks(join(from_masks(masks, given), strip, SIDES[at]))


def proved_over(field: Field, masks: Masks, format_: Format, ends: float = inf) -> VerifiedFactorization | None:
    """The scheme over the field that is wanted; None when it cannot be lifted so."""
    if field is Field.GF2:
        return verify(from_masks(masks, format_))
    key = (format_, tuple(map(tuple, masks)))
    if key not in _LIFTED:
        _LIFTED[key] = lift(verify(from_masks(masks, format_)), ends)
        while len(_LIFTED) > LIFTED_COUNT:
            del _LIFTED[next(iter(_LIFTED))]
    lifted = _LIFTED[key]
    return None if lifted is None or (field is Field.ZT and lifted.field is not Field.ZT) else lifted


def encode_climb(climb: Climb) -> dict[str, Any]:
    return {
        "rungs": [str(rung) for rung in climb.rungs],
        "field": str(climb.field),
        "seed": climb.seed,
        "search": encode_search(climb.search),
        "best": encode_masks(climb.best),
        "rung": climb.rung,
        "ascents": climb.ascents,
        "flips_before": climb.flips_before,
        "fallen_at": climb.fallen_at,
        "shelves": [[encode_masks(masks) for masks in shelf] for shelf in climb.shelves],
    }


def decode_climb(data: dict[str, Any]) -> Climb:
    try:
        rungs = tuple(parse_format(text) for text in data["rungs"])
        rung, ascents, before = (int(data[key]) for key in ("rung", "ascents", "flips_before"))
        search = decode_search(data["search"], rungs[rung])
        best = decode_masks(data["best"])
        fallen_at = int(data.get("fallen_at", 0))  # neither this nor shelves were in the second version
        shelves = tuple(tuple(decode_masks(masks) for masks in shelf) for shelf in data.get("shelves", ()))
        field, seed = parse_field(data["field"]), int(data["seed"])
        return Climb(rungs, field, seed, search, best, rung, ascents, before, fallen_at, shelves)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedFile(f"A search cannot be read: {error!r}.", "Begin again with another run=NAME.") from error
    except PalaestraError as error:
        raise DamagedFile(f"A search cannot be read: {error.message}", "Begin again with another run=NAME.") from error


def _sound(climb: Climb, schemes: Iterable[Masks], ends: float) -> tuple[Masks | None, Climb]:
    """The best of them that holds over the field that is wanted, whole; better ones that do not leave the search."""
    is_below = climb.field is Field.ZT and not climb.is_on_top  # larger coefficients on the way do no harm
    field = Field.Z if is_below else climb.field
    bad: list[Masks] = []
    for masks in sorted(schemes, key=climb.search.rank_of):
        whole = climb.search.whole(masks)
        if proved_over(field, whole, climb.search.format, ends) is not None:
            return whole, _without(climb, bad)
        bad.append(masks)
    return None, _without(climb, bad)


def _without(climb: Climb, bad: list[Masks]) -> Climb:
    return replace(climb, search=drop_schemes(climb.search, bad)) if bad else climb


def _again(climb: Climb, ends: float) -> Climb:
    """The next ascent: from the bottom, or on some rung from what stands on the shelf below or above."""
    found, climb = _sound(climb, climb.search.pool, ends)
    climb = climb if found is None else _shelved(climb, found)
    ascents = climb.ascents + 1
    word = throw(climb.seed, AGAIN_WORDS, ascents)
    if may_turn(climb) and word >> 9 & 7:
        return _turning(climb, ascents)
    rung = (word >> 32) % len(climb.rungs)  # its last bit is always 1
    below, above = (_shelf(climb, at) for at in (rung - 1, rung + 1))
    if above and word >> 8 & 1:
        return _moved(climb, rung, ascents, _cut_down(climb, rung, above[(word >> 16) % len(above)]))
    if below:
        start = extended(below[(word >> 16) % len(below)], *climb.rungs[rung - 1 : rung + 1])
        return _moved(climb, rung, ascents, start)
    return _moved(climb, 0, ascents, None)


def _cut_down(climb: Climb, rung: int, masks: Masks) -> Masks:
    given, wanted = climb.rungs[rung + 1], climb.rungs[rung]
    at = next(k for k in range(3) if given.sides[k] != wanted.sides[k])
    return to_masks(projected(from_masks(masks, given), at))


def _shelf(climb: Climb, rung: int) -> tuple[Masks, ...]:
    return climb.shelves[rung] if 0 <= rung < len(climb.shelves) else ()


def _shelved(climb: Climb, found: Masks) -> Climb:
    """On the present rung's shelf, where of equally good ones the newest stay."""
    shelves = [_shelf(climb, rung) for rung in range(len(climb.rungs))]
    shelves[climb.rung] = best_of([found, *shelves[climb.rung]], SHELF)
    return replace(climb, shelves=tuple(shelves))


def _moved(climb: Climb, rung: int, ascents: int, start: Masks | None) -> Climb:
    word = throw(climb.seed, RUNG_WORDS + rung, ascents) >> 1
    search = begin(climb.rungs[rung], word, len(climb.search.walkers), start)
    return replace(climb, search=search, rung=rung, ascents=ascents, flips_before=climb.flips, fallen_at=0)


def _turning(climb: Climb, ascents: int) -> Climb:
    """On the last rung, from the schoolbook's."""
    climb = _moved(climb, len(climb.rungs) - 1, ascents, None)
    return replace(climb, search=begin_turning(climb.format, climb.search.seed, len(climb.search.walkers)))
