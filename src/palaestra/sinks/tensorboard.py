"""Event files for TensorBoard, with CleanRL's tags and x = environment step. TensorBoard itself is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.contracts.episode_columns import EpisodeColumns
from palaestra.sinks.event_file import EventFile
from palaestra.sinks.event_messages import (
    alike_events,
    scalars_event,
    session_start_event,
    spelled_out,
    text_event,
    version_event,
)
from palaestra.sinks.samples import EPISODIC_LENGTH, EPISODIC_RETURN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from palaestra.contracts.clock import Clock
    from palaestra.contracts.episodes import EpisodeResult
    from palaestra.contracts.sink import Sample

PREFIX = "events.out.tfevents."  # TensorBoard reads the files of a directory in the order of their names
HYPERPARAMETERS = "hyperparameters/text_summary"  # as torch and CleanRL name it
MANY_EPISODES = 32  # of one moment that are worth being written all at once
FLUSH_SECONDS = 5.0  # how far the page may lag behind the run


class TensorBoardSink:
    name = "tensorboard"

    def __init__(self, directory: Path, hyperparameters: Mapping[str, Any], clock: Clock) -> None:
        self._clock = clock
        self._flushed_at = clock.monotonic()
        session = 1 + _last_session(directory)
        self._file = EventFile(directory / f"{PREFIX}{session:010d}.palaestra")
        self._file.append(version_event(clock.now()))
        if session == 1 and hyperparameters:
            self._file.append(text_event(clock.now(), 0, HYPERPARAMETERS, markdown_table(hyperparameters)))
        self._file.flush()

    def write(self, sample: Sample) -> None:
        self._write_episodes(sample)
        values = {**sample.metrics, **sample.timings}
        if sample.episodes:  # their own points stand for the mean
            values.pop(EPISODIC_RETURN, None)
            values.pop(EPISODIC_LENGTH, None)
        self._file.append(scalars_event(sample.at, sample.step, values))
        if self._clock.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def _write_episodes(self, sample: Sample) -> None:
        episodes = sample.episodes
        if not isinstance(episodes, EpisodeColumns):
            self._file.append(
                *(scalars_event(sample.at, episode.env_step, _of_episode(episode)) for episode in episodes)
            )
            return
        common, places = alike_events(sample.at, episodes.env_step, (EPISODIC_RETURN, EPISODIC_LENGTH))
        columns = (episodes.total_rewards, episodes.lengths)
        if len(episodes) >= MANY_EPISODES:
            self._file.append_alike(common, places, columns)
        else:
            self._file.append(*spelled_out(common, places, columns))

    def rewind(self, step: int) -> None:
        """Tell TensorBoard to forget points after `step`, in its own words (a session start)."""
        self._file.append(session_start_event(self._clock.now(), step + 1))
        self._file.flush()

    def flush(self) -> None:
        self._file.flush()
        self._flushed_at = self._clock.monotonic()

    def close(self) -> None:
        self._file.close()


def _last_session(directory: Path) -> int:
    """Sessions are numbered, not dated, because a clock may jump back between two of them."""
    numbers = (path.name.removeprefix(PREFIX).split(".")[0] for path in directory.glob(f"{PREFIX}*"))
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _of_episode(episode: EpisodeResult) -> dict[str, float]:
    return {EPISODIC_RETURN: episode.total_reward, EPISODIC_LENGTH: episode.length}


def markdown_table(hyperparameters: Mapping[str, Any]) -> str:
    """Nested settings as `ppo.gamma` lines, as CleanRL shows its own."""
    rows = [f"|{name}|{value}|" for name, value in _flat(hyperparameters, "")]
    return "\n".join(["|param|value|", "|-|-|", *rows])


def _flat(settings: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            rows.extend(_flat(value, f"{prefix}{name}."))
        else:
            rows.append((f"{prefix}{name}", value))
    return rows
