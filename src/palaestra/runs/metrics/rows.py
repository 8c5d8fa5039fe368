"""Samples as rows of `metrics.db`."""

from __future__ import annotations

import json
from functools import cache
from itertools import groupby, repeat
from typing import TYPE_CHECKING

from palaestra.core.episodes import EpisodeColumns
from palaestra.runs.files import finite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.metrics_logger import Sample

POINTS_PER_STATEMENT = 200  # points of a statement; SQLite takes at least 999 numbers


def point_statements(
    samples: Iterable[tuple[int, Sample]], id_of: Callable[[str, bool], int]
) -> Iterator[tuple[str, Iterable[tuple[object, ...]]]]:
    """Statements with the rows to execute each for: all points of a sample in one, samples of the same names together.

    A statement says which names its points have, so that a row is no more than a sample's step, number and values.
    """
    ids_of = cache(lambda metrics, timings: _ids(metrics, timings, id_of))  # most samples have the same names
    for ids, alike in groupby(samples, key=lambda one: ids_of(tuple(one[1].metrics), tuple(one[1].timings))):
        rows = [_row(key, sample) for key, sample in alike]
        for first in range(0, len(ids), POINTS_PER_STATEMENT):
            some = slice(first + 2, first + 2 + POINTS_PER_STATEMENT)
            own = rows if len(ids) <= POINTS_PER_STATEMENT else [(*row[:2], *row[some]) for row in rows]
            yield _statement(ids[first : first + POINTS_PER_STATEMENT]), own


def _ids(metrics: Iterable[str], timings: Iterable[str], id_of: Callable[[str, bool], int]) -> tuple[int, ...]:
    kinds = ((metrics, True), (timings, False))
    return tuple(id_of(name, reproducible) for names, reproducible in kinds for name in names)


def _statement(ids: Iterable[int]) -> str:
    points = ", ".join(f"(?1, {int(own)}, ?{folder}, ?2)" for folder, own in enumerate(ids, start=3))
    return f"INSERT OR REPLACE INTO points VALUES {points}"  # noqa: S608  nothing but our own numbers


def _row(key: int, sample: Sample) -> tuple[object, ...]:
    return (sample.step, key, *map(float, sample.metrics.values()), *map(float, sample.timings.values()))


def interval_rows(samples: Iterable[tuple[int, Sample]]) -> Iterator[tuple[object, ...]]:
    for key, sample in samples:
        if sample.interval is not None:
            yield key, sample.interval.first_step, sample.interval.iterations


def range_rows(samples: Iterable[Sample], id_of: Callable[[str, bool], int]) -> Iterator[tuple[object, ...]]:
    for sample in samples:
        if sample.interval is not None:
            for name, found in sample.interval.ranges.items():
                yield sample.step, id_of(name, name in sample.metrics), *found


def summary_rows(samples: Iterable[Sample]) -> Iterator[tuple[object, ...]]:
    return ((sample.step, *sample.episode_summary) for sample in samples if sample.episode_summary is not None)


def episode_rows(sample: Sample) -> Iterable[tuple[object, ...]]:
    step, episodes = sample.step, sample.episodes
    if not isinstance(episodes, EpisodeColumns):
        return [_episode_row(step, episode) for episode in episodes]
    returns = map(float, episodes.total_rewards)
    own = (episodes.env_indices, repeat(None), returns, episodes.lengths, episodes.terminated)
    return zip(repeat(step), repeat(episodes.env_step), *own, repeat(None), strict=False)


def _episode_row(step: int, episode: EpisodeResult) -> tuple[object, ...]:
    return (
        step,
        episode.env_step,
        episode.env_index,
        episode.seed,
        float(episode.total_reward),
        episode.length,
        episode.terminated,
        json.dumps(finite(episode.extras), sort_keys=True) if episode.extras else None,
    )
