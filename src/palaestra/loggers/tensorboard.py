"""Event files for TensorBoard, with CleanRL's tags and x = environment step. TensorBoard itself is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.core.episodes import EpisodeColumns
from palaestra.loggers.event_file import LONG, EventFile, ScalarBatches, session_start_event, text_event, version_event
from palaestra.loggers.samples import EPISODIC_LENGTH, EPISODIC_RETURN, min_max_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from palaestra.core.clock import Clock
    from palaestra.core.metrics_logger import Sample

PREFIX = "events.out.tfevents."  # TensorBoard reads the files of a directory in the order of their names
HYPERPARAMETERS = "hyperparameters/text_summary"  # as torch and CleanRL name it
MANY_POINTS = 8  # that are worth being written all at once
WAITING_SAMPLES = 128
EPISODE_TAGS = (EPISODIC_RETURN, EPISODIC_LENGTH)
FLUSH_SECONDS = 5.0  # how far the page may lag behind the run


class TensorBoardLogger:
    name = "tensorboard"

    def __init__(self, directory: Path, hyperparameters: Mapping[str, Any], clock: Clock) -> None:
        self._clock = clock
        self._flushed_at = clock.monotonic()
        self._waiting: list[Sample] = []
        session = 1 + _last_session(directory)
        self._file = EventFile(directory / f"{PREFIX}{session:010d}.palaestra")
        self._file.append(version_event(clock.now()))
        if session == 1 and hyperparameters:
            self._file.append(text_event(clock.now(), 0, HYPERPARAMETERS, markdown_table(hyperparameters)))
        self._file.flush()

    def write(self, sample: Sample) -> None:
        """Samples wait for each other: many at once cost a tenth of each by itself."""
        self._waiting.append(sample)
        if self._clock.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()
        elif len(self._waiting) >= WAITING_SAMPLES:
            self._write_waiting()

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for points in _points_of(waiting):
            if len(points.rows) < MANY_POINTS or len(points.layout.common) > LONG:
                self._file.append(*points.encode_each())
            else:
                self._file.append_batch(points)

    def rewind(self, step: int) -> None:
        """Tell TensorBoard to forget points after `step`, in its own words (a session start)."""
        self._write_waiting()
        self._file.append(session_start_event(self._clock.now(), step + 1))
        self._file.flush()

    def flush(self) -> None:
        self._write_waiting()
        self._file.flush()
        self._flushed_at = self._clock.monotonic()

    def close(self) -> None:
        try:
            self._write_waiting()
        finally:
            self._file.close()


def _last_session(directory: Path) -> int:
    """Sessions are numbered, not dated, because a clock may jump back between two of them."""
    numbers = (path.name.removeprefix(PREFIX).split(".")[0] for path in directory.glob(f"{PREFIX}*"))
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _points_of(samples: Sequence[Sample]) -> ScalarBatches:
    points = ScalarBatches()
    for sample in samples:
        _add_episodes(sample, points)
    for sample in samples:
        values = {**sample.metrics, **sample.timings}
        if sample.episodes:  # their own points stand for the mean
            values.pop(EPISODIC_RETURN, None)
            values.pop(EPISODIC_LENGTH, None)
        for part in (values, *min_max_values(sample)):  # one by one, because checksums of long events are slow
            if part:
                points.add(sample.at, sample.step, tuple(part), [tuple(part.values())])
    return points


def _add_episodes(sample: Sample, points: ScalarBatches) -> None:
    episodes = sample.episodes
    if isinstance(episodes, EpisodeColumns):
        rows = zip(episodes.total_rewards, episodes.lengths, strict=True)
        points.add(sample.at, episodes.env_step, EPISODE_TAGS, rows)
        return
    for episode in episodes:
        points.add(sample.at, episode.env_step, EPISODE_TAGS, [(episode.total_reward, episode.length)])


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
