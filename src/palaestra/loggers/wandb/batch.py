"""Packs many samples into one message for the W&B process; numbers are doubles, a tenth of the cost of JSON numbers.

A fast training has six hundred samples per second. One JSON message for each took 3 % of the training time.
"""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any

from palaestra.core.episodes import EpisodeColumns, episode_returns
from palaestra.loggers.samples import all_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from palaestra.core.metrics_logger import Sample

EPISODES_PER_MESSAGE = 4000  # keeps a message far below what a socket takes at once (some 200 kB)
ROWS_PER_MESSAGE = 500  # of episodes in words
SAMPLES_PER_MESSAGE = 250  # of some twenty numbers each


def pack_messages(samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    """Messages for all of them: first the episodes, then the scalars."""
    yield from _pack_episodes(samples)
    valued = [(one.step, all_values(one)) for one in samples]
    for names, alike in groupby(valued, key=lambda one: tuple(one[1])):
        waiting = list(alike)
        for first in range(0, len(waiting), SAMPLES_PER_MESSAGE):
            some = waiting[first : first + SAMPLES_PER_MESSAGE]
            numbers = [number for _, values in some for number in values.values()]
            yield {
                "kind": "samples",
                "steps": [step for step, _ in some],
                "names": names,
                "numbers": _encode_doubles(numbers),
            }


def unpack_message(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages that W&B's session knows: one for every sample, rows for episodes; others as they are."""
    match message["kind"]:
        case "samples":
            names, numbers = message["names"], _decode_doubles(message["numbers"])
            for place, step in enumerate(message["steps"]):
                own = numbers[place * len(names) : (place + 1) * len(names)]
                yield {"kind": "sample", "step": step, "values": dict(zip(names, own, strict=True))}
        case "summaries":
            for step, count, mean in message["rows"]:
                yield {"kind": "episode_summary", "step": step, "count": count, "mean": mean}
        case "returns":
            rows = zip(
                _decode_doubles(message["steps"]), _decode_doubles(message["returns"]), repeat(None), repeat(None)
            )
            yield {"kind": "episodes", "rows": [[int(step), *values] for step, *values in rows]}
        case _:
            yield message


def _pack_episodes(samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    """In their order; those with more to say than what they brought as rows of words."""
    for is_plain, alike in groupby(samples, key=lambda sample: isinstance(sample.episodes, EpisodeColumns)):
        some = list(alike)
        yield from _pack_returns(some) if is_plain else _pack_rows(some)


def _pack_returns(samples: Iterable[Sample]) -> Iterator[dict[str, Any]]:
    steps, returns = array("d"), array("d")
    for sample in samples:
        assert isinstance(sample.episodes, EpisodeColumns), "asked before"
        steps.extend(repeat(float(sample.episodes.env_step), len(sample.episodes)))
        returns.extend(episode_returns(sample.episodes))
    for first in range(0, len(steps), EPISODES_PER_MESSAGE):
        some = slice(first, first + EPISODES_PER_MESSAGE)
        yield {"kind": "returns", "steps": _encode_doubles(steps[some]), "returns": _encode_doubles(returns[some])}


def _pack_rows(samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    summaries = [
        (one.step, one.episode_summary.episode_count, one.episode_summary.return_mean)
        for one in samples
        if one.episode_summary
    ]
    if summaries:
        yield {"kind": "summaries", "rows": summaries}
    rows = [
        (episode.env_step, episode.total_reward, episode.extras.get("residual"), episode.extras.get("rank"))
        for sample in samples
        for episode in sample.episodes
    ]
    for first in range(0, len(rows), ROWS_PER_MESSAGE):
        yield {"kind": "episodes", "rows": rows[first : first + ROWS_PER_MESSAGE]}


def _encode_doubles(numbers: Iterable[float]) -> str:
    return b64encode(array("d", numbers)).decode()


def _decode_doubles(text: str) -> list[float]:
    numbers = array("d")
    numbers.frombytes(b64decode(text))
    return numbers.tolist()
