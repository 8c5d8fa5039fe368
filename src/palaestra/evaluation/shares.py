"""A plan dealt to several players like cards, and put together again in its own order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from palaestra.core.errors import RunFailed
from palaestra.core.evaluation import EvaluationReport

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan


def deal(plan: EvaluationPlan, count: int) -> list[EvaluationPlan]:
    """At most `count` shares, none of them empty and no two more than one episode apart."""
    return [replace(plan, seeds=plan.seeds[first::count]) for first in range(min(count, len(plan.seeds)))]


def put_together(plan: EvaluationPlan, episodes: Iterable[EpisodeResult], seconds: float) -> EvaluationReport:
    """The report of the whole plan, as if one had played it alone; without some of its episodes it is incomplete.

    An episode that came twice (its player was believed lost) counts once: seeds decide, so both are the same.
    """
    by_seed = {episode.seed: episode for episode in episodes}
    strangers = by_seed.keys() - set(plan.seeds)
    if strangers:
        raise RunFailed(f"Somebody played seeds {sorted(map(str, strangers))[:3]} that are not in the plan.")
    played = tuple(by_seed[seed] for seed in plan.seeds if seed in by_seed)
    if not played:
        raise RunFailed(f"No episode of '{plan.env_id}' was played.")
    return EvaluationReport(plan, played, seconds, complete=len(played) == len(plan.seeds))
