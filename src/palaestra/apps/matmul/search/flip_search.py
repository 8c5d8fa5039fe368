"""A search as a value: walkers, the pool of the best, and what is needed to go on as if it had never stopped.

Each walker starts from the schoolbook's scheme, or the one it was given; every second time on average, from the pool.
One that has not fallen for `patience` flips starts again. Rounds are of a fixed number of flips, so that the same seed
gives the same search, whatever the clock and however many threads carry it out.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.schemes.bit_masks import Masks, check_fits, spread, to_masks, turning_rank, turning_school
from palaestra.apps.matmul.schemes.factorization import schoolbook
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.search.flip_walk import resume_walk, turning_walk
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from palaestra.apps.matmul.schemes.factorization import Format


@dataclass(frozen=True)
class Rules:
    plus_period: int = 20_000  # flips without a fall before a row is split
    margin: int = 2  # how far above its best a walker may climb
    patience: int = 20_000_000  # flips without a new best before a walker starts again
    round_flips: int = 1_000_000  # of each walker, between two looks at the clock
    pool_size: int = 4
    target: int = 0  # a walker stops at this rank


@dataclass(frozen=True)
class Walker:
    current: Masks
    best: Masks
    dice: int
    since_fall: int = 0
    since_best: int = 0  # flips
    starts: int = 0


@dataclass(frozen=True)
class Search:
    format: Format
    seed: int
    walkers: tuple[Walker, ...]
    start: Masks  # where walkers begin: the schoolbook's scheme, or a better one
    pool: tuple[Masks, ...] = ()  # the best first
    flips: int = 0
    is_turning: bool = False  # all masks are those of schemes that can be turned, a third of the rows

    @property
    def best(self) -> Masks:
        return min([*(walker.best for walker in self.walkers), *self.pool], key=self.rank_of)

    @property
    def best_rank(self) -> int:
        return self.rank_of(self.best)

    @property
    def rank_of(self) -> Callable[[Masks], int]:
        return turning_rank if self.is_turning else len

    def whole(self, masks: Masks) -> Masks:
        """All rows of a scheme of this search."""
        return spread(masks, self.format.rows) if self.is_turning else masks


def begin(format_: Format, seed: int, walkers: int, start: Masks | None = None) -> Search:
    """`start`: a scheme to begin with, instead of the schoolbook's."""
    check_fits(format_)
    rows = start or to_masks(schoolbook(format_, Field.GF2))
    made = tuple(Walker(rows, rows, throw(seed, index, 0)) for index in range(walkers))
    return Search(format_, seed, made, rows)


def begin_turning(format_: Format, seed: int, walkers: int, start: Masks | None = None) -> Search:
    """Among schemes for square matrices that can be turned; `start` is one of them."""
    check_fits(format_)
    return replace(begin(format_, seed, walkers, start or turning_school(format_.rows)), is_turning=True)


def advance(search: Search, rules: Rules, pool: ThreadPoolExecutor | None = None) -> Search:
    """One round of every walker; the compiled walk lets go of Python, so threads run side by side."""
    mapped = (pool.map if pool else map)(lambda walker: _walk(walker, rules, search), search.walkers)
    done = list(mapped)
    kept = best_of([*search.pool, *(walker.best for walker, _ in done)], rules.pool_size, search.rank_of)
    flips = search.flips + sum(made for _, made in done)
    walkers = tuple(
        _start_again(walker, index, search, kept) if walker.since_best >= rules.patience else walker
        for index, (walker, _) in enumerate(done)
    )
    return replace(search, walkers=walkers, pool=kept, flips=flips)


def drop_schemes(search: Search, bad: list[Masks]) -> Search:
    """They leave the pool, and walkers that had found them start again."""
    marks = {_mark(masks) for masks in bad}
    kept = tuple(masks for masks in search.pool if _mark(masks) not in marks)
    walkers = tuple(
        _start_again(walker, index, search, kept) if _mark(walker.best) in marks else walker
        for index, walker in enumerate(search.walkers)
    )
    return replace(search, walkers=walkers, pool=kept)


def throw(seed: int, walker: int, start: int) -> int:
    """A word for the dice of a walker's start; neighbouring seeds have nothing in common."""
    digest = hashlib.sha256(f"{seed} {walker} {start}".encode()).digest()
    return int.from_bytes(digest[:8], "little") | 1


def encode_search(search: Search) -> dict[str, Any]:
    """Plain data; masks as hexadecimal text, since JSON has no 64 bits for everybody."""
    walkers = [
        {
            "current": encode_masks(walker.current),
            "best": encode_masks(walker.best),
            "dice": f"{walker.dice:x}",
            "since_fall": walker.since_fall,
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
        "is_turning": search.is_turning,
    }


def decode_search(data: dict[str, Any], format_: Format) -> Search:
    try:
        walkers = tuple(
            Walker(
                decode_masks(one["current"]),
                decode_masks(one["best"]),
                int(one["dice"], 16),
                int(one["since_fall"]),
                int(one["since_best"]),
                int(one["starts"]),
            )
            for one in data["walkers"]
        )
        pool = tuple(decode_masks(one) for one in data["pool"])
        seed, flips = int(data["seed"]), int(data["flips"])
        is_turning = bool(data.get("is_turning", False))  # not in the third version
        return Search(format_, seed, walkers, decode_masks(data["start"]), pool, flips, is_turning)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"A search cannot be read: {error!r}.", "Begin again with another run=NAME.") from error


def _walk(walker: Walker, rules: Rules, search: Search) -> tuple[Walker, int]:
    resume = turning_walk if search.is_turning else resume_walk
    walk = resume(walker.current, walker.best, walker.dice, walker.since_fall)
    made = walk.go(rules.round_flips, rules.plus_period, rules.margin, rules.target)
    has_fallen = walk.best_rank < search.rank_of(walker.best)
    is_stuck = 0 < made < rules.round_flips and walk.best_rank > rules.target
    since = 0 if has_fallen else walker.since_best + (rules.patience if is_stuck else made)
    return Walker(walk.current, walk.best, walk.dice, walk.since_fall, since, walker.starts), made


def _start_again(walker: Walker, index: int, search: Search, pool: tuple[Masks, ...]) -> Walker:
    starts = walker.starts + 1
    word = throw(search.seed, index, starts)
    from_pool = bool(pool) and bool(word & 2)
    rows = pool[(word >> 8) % len(pool)] if from_pool else search.start
    return Walker(rows, rows, word, starts=starts)


def best_of(schemes: list[Masks], count: int, rank_of: Callable[[Masks], int] = len) -> tuple[Masks, ...]:
    """Different ones, none more than one above the best."""
    different = {_mark(one): one for one in schemes}
    ranked = sorted(different.values(), key=rank_of)
    return tuple(one for one in ranked[:count] if rank_of(one) <= rank_of(ranked[0]) + 1)


def _mark(masks: Masks) -> tuple[tuple[int, ...], ...]:
    """The same for the same rows in another order."""
    return tuple(sorted(map(tuple, masks)))


def encode_masks(masks: Masks) -> list[str]:
    return [" ".join(f"{mask:x}" for mask in row) for row in masks]


def decode_masks(rows: list[str]) -> Masks:
    found = [[int(word, 16) for word in row.split()] for row in rows]
    if not found or any(len(row) != 3 or not all(0 < mask < 1 << 64 for mask in row) for row in found):
        raise ValueError("a scheme has rows of three masks")
    return found
