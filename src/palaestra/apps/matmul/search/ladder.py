"""Search over a ladder of formats: smaller formats first; each result is extended to the next format.

A walk for 4x4x4 that starts from the naive scheme stays far above the best known rank; from a good 3x4x4, extended, it
does not. A rung ends at the best known rank, or after a number of flips without a reduction; its best schemes enter
the pool of the rung. After the last rung a new ascent starts with another seed: at the bottom, or on any rung from a
scheme of the rung below (extended) or above (projected), since which scheme is extended matters more than the number
of flips. For integer fields only schemes that lift are extended or stored. For large square matrices over GF(2) the
first ascent, and seven of eight later ones, search the last rung among cyclic-symmetric schemes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.schemes.bit_masks import Masks, decode_claim, encode_claim, supports_cyclic_search
from palaestra.apps.matmul.schemes.composition import SIDES, join_schemes, project
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization, parse_format
from palaestra.apps.matmul.schemes.fields import Field, parse_field
from palaestra.apps.matmul.schemes.known_ranks import known_rank
from palaestra.apps.matmul.schemes.rings import INCLUDED, can_convert, convert
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_search import (
    Search,
    SearchSettings,
    advance_search,
    best_schemes,
    decode_masks,
    decode_search,
    derive_seed,
    drop_schemes,
    encode_masks,
    encode_search,
    start_cyclic_search,
    start_search,
)
from palaestra.apps.matmul.search.flip_walk import IS_COMPILED
from palaestra.apps.matmul.search.lifting import LiftTimeout, lift
from palaestra.core.errors import DamagedFile, PalaestraError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import ThreadPoolExecutor

    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization

LIFTED_COUNT = 64
# Cache: a lift takes seconds, and the end of a run lifts the same schemes again.
_LIFTED: dict[tuple[Format, Field, bool, tuple[tuple[int, ...], ...]], VerifiedFactorization | None] = {}
MAX_DIRECT_RANK = 27  # up to this naive rank a walk from the naive scheme is fast
ASCENTS_PER_EXTENSION = 16  # after so many ascents the flips of each rung increase
RUNG_SEEDS = 1000  # offset of the seeds of rungs, beyond those of walkers
ASCENT_SEEDS = 2000  # offset of the seeds of ascents
RUNG_POOL_SIZE = 8  # schemes stored for each rung
CYCLIC_ROW_RANK = 3  # rows of an orbit: ranks of cyclic-symmetric schemes change in such steps
CYCLIC_PLUS_FACTOR = 2  # a cyclic search has more frequent plus transitions,
CYCLIC_RESTART_FACTOR = 4  # earlier restarts,
CYCLIC_FLIPS_FACTOR = 4  # and more flips


@dataclass(frozen=True)
class LadderState:
    rungs: tuple[Format, ...]  # the last is the target format
    field: Field  # for others than gf2 only schemes that lift are stored and extended
    seed: int
    search: Search  # on the current rung
    best: Masks  # for the last format, of all ascents
    rung: int = 0
    ascents: int = 0
    flips_before: int = 0  # of finished searches
    improved_at: int = 0  # flips of the current search at its last improvement
    rung_pools: tuple[tuple[Masks, ...], ...] = ()  # the best schemes of each rung
    ring: Field = Field.GF2  # of the walks; for other fields than that their schemes are lifted

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
    def is_at_top(self) -> bool:
        return self.rung == len(self.rungs) - 1


def ladder_rungs(format_: Format) -> tuple[Format, ...]:
    """The formats from small to `format_`; each step increases one side by 1."""
    found = [format_]
    while found[0].naive_rank > MAX_DIRECT_RANK:
        sides = list(found[0].sides)
        sides[sides.index(max(sides))] -= 1
        found.insert(0, Format(sides[0], sides[1], sides[2]))
    return tuple(found)


def start_ladder(
    rungs: tuple[Format, ...],
    field: Field,
    seed: int,
    walkers: int,
    start: Masks | None = None,
    ring: Field = Field.GF2,
) -> LadderState:
    """The initial state; `start` replaces the naive scheme of the first rung."""
    best = start if start and len(rungs) == 1 else encode_claim(naive_factorization(rungs[-1], ring))
    state = LadderState(rungs, field, seed, start_search(rungs[0], seed, walkers, start, ring), best, ring=ring)
    return _start_cyclic_ascent(state, 0) if uses_cyclic_search(state) and start is None else state


def uses_cyclic_search(state: LadderState) -> bool:
    return IS_COMPILED and len(state.rungs) > 1 and state.field is Field.GF2 and supports_cyclic_search(state.format)


def advance_ladder(
    state: LadderState,
    settings: SearchSettings,
    rung_flips: int,
    pool: ThreadPoolExecutor | None = None,
    deadline: float = inf,
) -> LadderState:
    """Runs one round; `settings.target` is that of the last rung. Raises `LiftTimeout` if a lift exceeds `deadline`."""
    target = settings.target if state.is_at_top else rung_target(state)
    if state.search.is_cyclic:
        settings = replace(
            settings,
            margin=settings.margin * CYCLIC_ROW_RANK,
            plus_period=max(settings.plus_period // CYCLIC_PLUS_FACTOR, 1),
            patience=settings.patience // CYCLIC_RESTART_FACTOR,
        )
        rung_flips *= CYCLIC_FLIPS_FACTOR
    search = advance_search(state.search, replace(settings, target=target), pool)
    has_improved = search.best_rank < state.search.best_rank
    state = replace(state, search=search, improved_at=search.flips if has_improved else state.improved_at)
    is_exhausted = search.flips - state.improved_at >= rung_flips * (1 + state.ascents // ASCENTS_PER_EXTENSION)
    if state.is_at_top:
        better = [masks for masks in search.pool if search.rank_of(masks) < state.best_rank]
        found, state = _best_valid(state, better, deadline)
        state = state if found is None else replace(state, best=found)
        may_start_again = is_exhausted and len(state.rungs) > 1 and state.best_rank > settings.target
        return _start_ascent(state, deadline) if may_start_again else state
    if search.best_rank > target and not is_exhausted:
        return state
    found, state = _best_valid(state, search.pool, deadline)
    if found is None:  # none of them lifts
        return _move_to_rung(state, state.rung, state.ascents + 1, None) if is_exhausted else state
    state = _add_to_rung_pool(state, found)
    start = extend_scheme(found, state.rungs[state.rung], state.rungs[state.rung + 1], state.ring)
    return _move_to_rung(state, state.rung + 1, state.ascents, start)


def best_so_far(state: LadderState, deadline: float = inf) -> Masks:
    """The best scheme for the target format; a result of a lower rung is extended to it."""
    try:
        return _best_extended(state, deadline)
    except LiftTimeout:
        return state.best


def _best_extended(state: LadderState, deadline: float) -> Masks:
    if state.is_at_top:
        return state.best
    found, _ = _best_valid(state, [state.search.best, *state.search.pool], deadline)
    if found is None:
        return state.best
    for given, wanted in pairwise(state.rungs[state.rung :]):
        found = extend_scheme(found, given, wanted, state.ring)
    if len(found) >= state.best_rank:
        return state.best
    is_valid = lift_to_field(state.field, found, state.format, deadline, state.ring) is not None
    return found if is_valid else state.best


def rung_target(state: LadderState) -> int:
    return known_rank(state.search.format, state.field) or 0


def extend_scheme(masks: Masks, given: Format, wanted: Format, ring: Field = Field.GF2) -> Masks:
    """Extends a scheme to a larger format with the naive scheme of the missing strip."""
    at = next(k for k in range(3) if given.sides[k] != wanted.sides[k])
    sides = list(wanted.sides)
    sides[at] -= given.sides[at]
    strip = naive_factorization(Format(sides[0], sides[1], sides[2]), ring)
    return encode_claim(join_schemes(decode_claim(masks, given, ring), strip, SIDES[at]))


def lift_to_field(
    field: Field, masks: Masks, format_: Format, deadline: float = inf, ring: Field = Field.GF2
) -> VerifiedFactorization | None:
    """The scheme of a walk over `ring`, verified over `field`; None if it does not lift."""
    proved = verify(decode_claim(masks, format_, ring))
    if can_convert(proved.claim, field):
        return proved if proved.field is field else verify(convert(proved.claim, field))
    key = (format_, ring, field.has_fractions, tuple(map(tuple, masks)))
    if key not in _LIFTED:
        _LIFTED[key] = lift(proved, deadline, with_fractions=field.has_fractions)
        while len(_LIFTED) > LIFTED_COUNT:
            del _LIFTED[next(iter(_LIFTED))]
    lifted = _LIFTED[key]
    if lifted is None or not can_convert(lifted.claim, field):
        return None
    return lifted if field in INCLUDED[lifted.field] else verify(convert(lifted.claim, field))


def encode_ladder(state: LadderState) -> dict[str, Any]:
    return {
        "rungs": [str(rung) for rung in state.rungs],
        "field": str(state.field),
        "seed": state.seed,
        "search": encode_search(state.search),
        "best": encode_masks(state.best),
        "rung": state.rung,
        "ascents": state.ascents,
        "flips_before": state.flips_before,
        "improved_at": state.improved_at,
        "ring": str(state.ring),
        "rung_pools": [[encode_masks(masks) for masks in pool] for pool in state.rung_pools],
    }


def decode_ladder(data: dict[str, Any]) -> LadderState:
    try:
        rungs = tuple(parse_format(text) for text in data["rungs"])
        rung, ascents, before = (int(data[key]) for key in ("rung", "ascents", "flips_before"))
        search = decode_search(data["search"], rungs[rung])
        best = decode_masks(data["best"])
        improved_at = int(data.get("improved_at", data.get("fallen_at", 0)))
        pools = data.get("rung_pools", data.get("shelves", ()))
        rung_pools = tuple(tuple(decode_masks(masks) for masks in pool) for pool in pools)
        field, seed = parse_field(data["field"]), int(data["seed"])
        ring = parse_field(data.get("ring", "gf2"))
        return LadderState(rungs, field, seed, search, best, rung, ascents, before, improved_at, rung_pools, ring)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedFile(
            f"The saved search is damaged: {error!r}.", "Start a new search with another run=NAME."
        ) from error
    except PalaestraError as error:
        raise DamagedFile(
            f"The saved search is damaged: {error.message}", "Start a new search with another run=NAME."
        ) from error


def _best_valid(state: LadderState, schemes: Iterable[Masks], deadline: float) -> tuple[Masks | None, LadderState]:
    """The best scheme that is valid over the field, all rows; better invalid ones are dropped from the search."""
    is_below = state.field is Field.ZT and not state.is_at_top  # lower rungs may use larger coefficients
    field = Field.Z if is_below else state.field
    invalid: list[Masks] = []
    for masks in sorted(schemes, key=state.search.rank_of):
        expanded = state.search.expand(masks)
        if lift_to_field(field, expanded, state.search.format, deadline, state.ring) is not None:
            return expanded, _without(state, invalid)
        invalid.append(masks)
    return None, _without(state, invalid)


def _without(state: LadderState, invalid: list[Masks]) -> LadderState:
    return replace(state, search=drop_schemes(state.search, invalid)) if invalid else state


def _start_ascent(state: LadderState, deadline: float) -> LadderState:
    """Starts the next ascent: at the bottom, or on a rung from a scheme of the rung below or above."""
    found, state = _best_valid(state, state.search.pool, deadline)
    state = state if found is None else _add_to_rung_pool(state, found)
    ascents = state.ascents + 1
    word = derive_seed(state.seed, ASCENT_SEEDS, ascents)
    if uses_cyclic_search(state) and word >> 9 & 7:
        return _start_cyclic_ascent(state, ascents)
    rung = (word >> 32) % len(state.rungs)  # a derived seed is always odd
    below, above = (_rung_pool(state, at) for at in (rung - 1, rung + 1))
    if above and word >> 8 & 1:
        return _move_to_rung(state, rung, ascents, _project_to_rung(state, rung, above[(word >> 16) % len(above)]))
    if below:
        start = extend_scheme(below[(word >> 16) % len(below)], state.rungs[rung - 1], state.rungs[rung], state.ring)
        return _move_to_rung(state, rung, ascents, start)
    return _move_to_rung(state, 0, ascents, None)


def _project_to_rung(state: LadderState, rung: int, masks: Masks) -> Masks:
    given, wanted = state.rungs[rung + 1], state.rungs[rung]
    at = next(k for k in range(3) if given.sides[k] != wanted.sides[k])
    return encode_claim(project(decode_claim(masks, given, state.ring), at))


def _rung_pool(state: LadderState, rung: int) -> tuple[Masks, ...]:
    return state.rung_pools[rung] if 0 <= rung < len(state.rung_pools) else ()


def _add_to_rung_pool(state: LadderState, found: Masks) -> LadderState:
    """Adds a scheme to the pool of the current rung; of equal ranks the newest stay."""
    rung_pools = [_rung_pool(state, rung) for rung in range(len(state.rungs))]
    rung_pools[state.rung] = best_schemes([found, *rung_pools[state.rung]], RUNG_POOL_SIZE)
    return replace(state, rung_pools=tuple(rung_pools))


def _move_to_rung(state: LadderState, rung: int, ascents: int, start: Masks | None) -> LadderState:
    word = derive_seed(state.seed, RUNG_SEEDS + rung, ascents) >> 1
    search = start_search(state.rungs[rung], word, len(state.search.walkers), start, state.ring)
    return replace(state, search=search, rung=rung, ascents=ascents, flips_before=state.flips, improved_at=0)


def _start_cyclic_ascent(state: LadderState, ascents: int) -> LadderState:
    """A cyclic search on the last rung, from the naive scheme."""
    state = _move_to_rung(state, len(state.rungs) - 1, ascents, None)
    return replace(state, search=start_cyclic_search(state.format, state.search.seed, len(state.search.walkers)))
