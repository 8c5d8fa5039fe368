"""What a run of the agent has found so far, and with method=auto the walk that goes beside it; frozen, as it flows.

Every process of a group keeps the same: what enters are the episodes of all, and a walk takes the same steps
everywhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.masks import Masks, to_masks
from palaestra.apps.matmul.search import Search, Walker, advance, begin, decode_search, encode_search, throw
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from palaestra.apps.matmul.agent_learner import RoundReport
    from palaestra.apps.matmul.discover_config import DiscoverConfig
    from palaestra.apps.matmul.format import Format

MAX_POOL = 8  # schemes of the best rank; not every scheme can be lifted
NEAR = 2  # a proposal so far above the walk's best is still worth a start


@dataclass(frozen=True)
class Progress:
    pool: tuple[Masks, ...]  # of the lowest rank so far; the schoolbook's scheme at first
    found_by: str = ""  # "agent" or "flip"
    walk: Search | None = None  # with method=auto
    shown: tuple[str, ...] = ()  # names of the schemes that the agent was shown
    shown_rank: int = 0  # the lowest rank among them; 0: none

    @property
    def best_rank(self) -> int:
        return len(self.pool[0])

    @property
    def is_reproduced(self) -> bool:
        """The agent was shown a scheme of that rank, or a better one, and so did not find it by itself."""
        return self.found_by == "agent" and 0 < self.shown_rank <= self.best_rank


def begin_progress(config: DiscoverConfig) -> Progress:
    start = to_masks(schoolbook(config.product, Field.GF2))
    walk = begin(config.product, config.seed, config.walkers) if config.method == "auto" else None
    return Progress((start,), walk=walk)


def shown_schemes(progress: Progress, names: list[str], ranks: list[int]) -> Progress:
    lowest = min([*ranks, *([progress.shown_rank] if progress.shown_rank else [])], default=0)
    return replace(progress, shown=tuple(dict.fromkeys([*progress.shown, *names])), shown_rank=lowest)


def absorb(progress: Progress, report: RoundReport, config: DiscoverConfig) -> Progress:
    """The episodes of a round, and then some flips of the walk, which may start from what they propose."""
    for played in report.episodes:
        progress = _with_scheme(progress, played.scheme, "agent")
    if progress.walk is None:
        return progress
    rules = replace(config.rules, round_flips=max(config.agent.walk_flips, 1))
    best = min((played.scheme for played in report.episodes), key=len)
    walk = advance(_started_from(progress.walk, best, report.round), rules)
    return _with_scheme(replace(progress, walk=walk), walk.best, "flip")


def encode_progress(progress: Progress) -> dict[str, Any]:
    return {
        "pool": json.dumps(progress.pool),
        "found_by": progress.found_by,
        "walk": json.dumps(encode_search(progress.walk)) if progress.walk else "",
        "shown": list(progress.shown),
        "shown_rank": progress.shown_rank,
    }


def decode_progress(data: dict[str, Any], format_: Format) -> Progress:
    try:
        walk = decode_search(json.loads(data["walk"]), format_) if data["walk"] else None
        pool = tuple(json.loads(data["pool"]))
        return Progress(pool, str(data["found_by"]), walk, tuple(data["shown"]), int(data["shown_rank"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"The agent's progress cannot be read: {error!r}.", "Begin again with run=NAME.") from error


def _with_scheme(progress: Progress, scheme: Masks, found_by: str) -> Progress:
    rows = [list(row) for row in scheme]
    if len(rows) < progress.best_rank:
        return replace(progress, pool=(rows,), found_by=found_by)
    if len(rows) == progress.best_rank and len(progress.pool) < MAX_POOL and sorted(rows) not in map(sorted, progress.pool):
        return replace(progress, pool=(*progress.pool, rows))
    return progress


def _started_from(walk: Search, scheme: Masks, round_: int) -> Search:
    """One walker after the other takes up what the agent proposes."""
    if len(scheme) > walk.best_rank + NEAR:
        return walk
    index = round_ % len(walk.walkers)
    old = walk.walkers[index]
    fresh = Walker(scheme, scheme, throw(walk.seed, index, old.starts + 1), starts=old.starts + 1)
    kept = tuple(sorted([*walk.pool, old.best], key=len)[: max(len(walk.pool), 1)])
    walkers = tuple(fresh if place == index else one for place, one in enumerate(walk.walkers))
    return replace(walk, walkers=walkers, pool=kept)
