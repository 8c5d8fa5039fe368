"""Samples as rows of `metrics.db`."""

from __future__ import annotations

import json
from itertools import groupby, repeat
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
    rows = [row for key, sample in samples for row in _point_rows(key, sample, id_of)]
    for length, alike in groupby(rows, key=len):
        points = ", ".join([POINT] * (length // POINT_NUMBERS))
        yield f"INSERT OR REPLACE INTO points VALUES {points}", alike  # noqa: S608  nothing but question marks


def _point_rows(key: int, sample: Sample, id_of: Callable[[str, bool], int]) -> Iterator[tuple[object, ...]]:
    step = sample.step
    numbers: list[object] = []
    for values, reproducible in ((sample.metrics, True), (sample.timings, False)):
        for name, value in values.items():
            numbers += (step, id_of(name, reproducible), float(value), key)
    most = AT_ONCE * POINT_NUMBERS
    for first in range(0, len(numbers), most):
        yield tuple(numbers[first : first + most])


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
