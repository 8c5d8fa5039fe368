"""Flip-graph search with several walkers: an immutable state that can be saved and resumed exactly.

A walker starts from the naive or a given scheme; half of the restarts use a scheme of the pool. A walker without an
improvement for `patience` flips restarts. Rounds have a fixed number of flips, so a seed determines the search,
independent of timing and threads.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.schemes.bit_masks import (
    Masks,
    cyclic_rank,
    encode_claim,
    expand_cyclic,
    naive_cyclic_masks,
)
from palaestra.apps.matmul.schemes.factorization import naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.search.flip_walk import resume_cyclic_walk, resume_walk
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from palaestra.apps.matmul.schemes.factorization import Format


MAX_MASK_BITS = 256


@dataclass(frozen=True)
class SearchSettings:
    plus_period: int = 20_000  # flips without a reduction before a plus transition
    margin: int = 2  # a plus may raise the rank up to this much above a walker's best
    patience: int = 20_000_000  # flips without a new best before a walker restarts
    round_flips: int = 1_000_000  # flips of each walker per round
    pool_size: int = 4
    target: int = 0  # a walker stops at this rank


@dataclass(frozen=True)
class Walker:
    current: Masks
    best: Masks
    rng_state: int
    since_reduction: int = 0
    since_best: int = 0  # flips
    starts: int = 0


@dataclass(frozen=True)
class Search:
    format: Format
    seed: int
    walkers: tuple[Walker, ...]
    start: Masks  # start scheme of the walkers: naive or better
    pool: tuple[Masks, ...] = ()  # best first
    flips: int = 0
    is_cyclic: bool = False  # all masks represent cyclic-symmetric schemes, one row per orbit
    ring: Field = Field.GF2  # of the walks: gf2, z3 or zt

    @property
    def best(self) -> Masks:
        return min([*(walker.best for walker in self.walkers), *self.pool], key=self.rank_of)

    @property
    def best_rank(self) -> int:
        return self.rank_of(self.best)

    @property
    def rank_of(self) -> Callable[[Masks], int]:
        return cyclic_rank if self.is_cyclic else len

    def expand(self, masks: Masks) -> Masks:
        """All rows of a scheme of this search, with the orbits expanded."""
        return expand_cyclic(masks, self.format.rows) if self.is_cyclic else masks


def start_search(
    format_: Format, seed: int, walkers: int, start: Masks | None = None, ring: Field = Field.GF2
) -> Search:
    """The initial state; `start` replaces the naive scheme."""
    rows = start or encode_claim(naive_factorization(format_, ring))
    made = tuple(Walker(rows, rows, derive_seed(seed, index, 0)) for index in range(walkers))
    return Search(format_, seed, made, rows, ring=ring)


def start_cyclic_search(format_: Format, seed: int, walkers: int, start: Masks | None = None) -> Search:
    """A search among cyclic-symmetric schemes for square matrices; `start` is one of them."""
    return replace(start_search(format_, seed, walkers, start or naive_cyclic_masks(format_.rows)), is_cyclic=True)


def advance_search(search: Search, settings: SearchSettings, pool: ThreadPoolExecutor | None = None) -> Search:
    """Runs one round of every walker; the compiled walk releases the GIL, so `pool` runs them in parallel."""
    mapped = (pool.map if pool else map)(lambda walker: _run_walker(walker, settings, search), search.walkers)
    done = list(mapped)
    kept = best_schemes([*search.pool, *(walker.best for walker, _ in done)], settings.pool_size, search.rank_of)
    flips = search.flips + sum(made for _, made in done)
    walkers = tuple(
        _restart(walker, index, search, kept) if walker.since_best >= settings.patience else walker
        for index, (walker, _) in enumerate(done)
    )
    return replace(search, walkers=walkers, pool=kept, flips=flips)


def drop_schemes(search: Search, bad: list[Masks]) -> Search:
    """Removes schemes from the pool and restarts walkers whose best they are."""
    keys = {_row_key(masks) for masks in bad}
    kept = tuple(masks for masks in search.pool if _row_key(masks) not in keys)
    walkers = tuple(
        _restart(walker, index, search, kept) if _row_key(walker.best) in keys else walker
        for index, walker in enumerate(search.walkers)
    )
    return replace(search, walkers=walkers, pool=kept)


def derive_seed(seed: int, walker: int, start: int) -> int:
    """A 64-bit seed for a walker's start, independent for each combination."""
    digest = hashlib.sha256(f"{seed} {walker} {start}".encode()).digest()
    return int.from_bytes(digest[:8], "little") | 1


def encode_search(search: Search) -> dict[str, Any]:
    """JSON data; masks as hexadecimal text, since many JSON parsers lose bits of 64-bit integers."""
    walkers = [
        {
            "current": encode_masks(walker.current),
            "best": encode_masks(walker.best),
            "rng_state": f"{walker.rng_state:x}",
            "since_reduction": walker.since_reduction,
            "since_best": walker.since_best,
            "starts": walker.starts,
        }
        for walker in search.walkers
    ]
    return {
        "seed": search.seed,
        "flips": search.flips,
        "walkers": walkers,
        "start": encode_masks(search.start),
        "pool": [encode_masks(one) for one in search.pool],
        "is_cyclic": search.is_cyclic,
        "ring": str(search.ring),
    }


def decode_search(data: dict[str, Any], format_: Format) -> Search:
    try:
        walkers = tuple(
            Walker(
                decode_masks(one["current"]),
                decode_masks(one["best"]),
                int(_get(one, "rng_state", "dice"), 16),
                int(_get(one, "since_reduction", "since_fall")),
                int(one["since_best"]),
                int(one["starts"]),
            )
            for one in data["walkers"]
        )
        pool = tuple(decode_masks(one) for one in data["pool"])
        seed, flips = int(data["seed"]), int(data["flips"])
        is_cyclic = bool(data.get("is_cyclic", data.get("is_turning", False)))
        ring = Field(data.get("ring", "gf2"))
        return Search(format_, seed, walkers, decode_masks(data["start"]), pool, flips, is_cyclic, ring)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(
            f"The saved search is damaged: {error!r}.", "Start a new search with another run=NAME."
        ) from error


def _get(data: dict[str, Any], key: str, old_key: str) -> Any:
    """Files before schema version 5 have the old key."""
    return data[key] if key in data else data[old_key]


def _run_walker(walker: Walker, settings: SearchSettings, search: Search) -> tuple[Walker, int]:
    state = (walker.current, walker.best, walker.rng_state, walker.since_reduction)
    walk = resume_cyclic_walk(*state) if search.is_cyclic else resume_walk(*state, search.ring)
    made = walk.run(settings.round_flips, settings.plus_period, settings.margin, settings.target)
    has_improved = walk.best_rank < search.rank_of(walker.best)
    is_stuck = 0 < made < settings.round_flips and walk.best_rank > settings.target
    since = 0 if has_improved else walker.since_best + (settings.patience if is_stuck else made)
    return Walker(walk.current, walk.best, walk.rng_state, walk.since_reduction, since, walker.starts), made


def _restart(walker: Walker, index: int, search: Search, pool: tuple[Masks, ...]) -> Walker:
    starts = walker.starts + 1
    word = derive_seed(search.seed, index, starts)
    from_pool = bool(pool) and bool(word & 2)
    rows = pool[(word >> 8) % len(pool)] if from_pool else search.start
    return Walker(rows, rows, word, starts=starts)


def best_schemes(schemes: list[Masks], count: int, rank_of: Callable[[Masks], int] = len) -> tuple[Masks, ...]:
    """The best distinct schemes, at most one rank above the best."""
    different = {_row_key(one): one for one in schemes}
    ranked = sorted(different.values(), key=rank_of)
    return tuple(one for one in ranked[:count] if rank_of(one) <= rank_of(ranked[0]) + 1)


def _row_key(masks: Masks) -> tuple[tuple[int, ...], ...]:
    """A key that does not depend on the order of rows."""
    return tuple(sorted(map(tuple, masks)))


def encode_masks(masks: Masks) -> list[str]:
    return [" ".join(f"{mask:x}" for mask in row) for row in masks]


def decode_masks(rows: list[str]) -> Masks:
    found = [[int(word, 16) for word in row.split()] for row in rows]
    if not found or not all(map(_is_row, found)):
        raise ValueError("a scheme needs rows of three nonzero masks, or of three pairs")
    return found


def _is_row(row: list[int]) -> bool:
    if not all(0 <= mask < 1 << MAX_MASK_BITS for mask in row):
        return False
    if len(row) == 3:
        return all(row)
    return len(row) == 6 and all(row[at] | row[at + 1] and not row[at] & row[at + 1] for at in (0, 2, 4))
