"""Samples as rows of `metrics.db`."""

from __future__ import annotations

import json
from functools import cache
from itertools import chain, groupby, repeat
from typing import TYPE_CHECKING

from palaestra.contracts.episode_columns import EpisodeColumns
from palaestra.runs.files import finite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from palaestra.contracts.episodes import EpisodeResult
    from palaestra.contracts.sink import Sample

POINT = "(?, ?, ?, ?)"
POINT_NUMBERS = POINT.count("?")
AT_ONCE = 200  # points of a statement; SQLite takes at least 999 numbers


def point_statements(
    samples: Iterable[tuple[int, Sample]], id_of: Callable[[str, bool], int]
) -> Iterator[tuple[str, Iterable[tuple[object, ...]]]]:
    """Statements with the rows to execute each for: all points of a sample in one take a third of the time."""
    ids_of = cache(lambda metrics, timings: _ids(metrics, timings, id_of))  # most samples have the same names
    rows = [row for key, sample in samples for row in _point_rows(key, sample, ids_of)]
    for length, alike in groupby(rows, key=len):
        points = ", ".join([POINT] * (length // POINT_NUMBERS))
        yield f"INSERT OR REPLACE INTO points VALUES {points}", alike  # noqa: S608  nothing but question marks


def _ids(metrics: Iterable[str], timings: Iterable[str], id_of: Callable[[str, bool], int]) -> list[int]:
    kinds = ((metrics, True), (timings, False))
    return [id_of(name, reproducible) for names, reproducible in kinds for name in names]


def _point_rows(
    key: int, sample: Sample, ids_of: Callable[[tuple[str, ...], tuple[str, ...]], list[int]]
) -> Iterator[tuple[object, ...]]:
    ids = ids_of(tuple(sample.metrics), tuple(sample.timings))
    values = map(float, chain(sample.metrics.values(), sample.timings.values()))
    numbers = tuple(chain.from_iterable(zip(repeat(sample.step), ids, values, repeat(key), strict=False)))
    most = AT_ONCE * POINT_NUMBERS
    for first in range(0, len(numbers), most):
        yield numbers[first : first + most]


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
