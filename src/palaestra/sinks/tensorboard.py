"""Event files for TensorBoard, with CleanRL's tags and x = environment step.

Only tensorboard's message types are used, so neither TensorFlow nor torch is needed. They are imported when the
sink is made, because that costs a quarter to three quarters of a second that a run without TensorBoard need not pay.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from palaestra.sinks.event_file import EventFile
from palaestra.sinks.samples import EPISODIC_LENGTH, EPISODIC_RETURN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from palaestra.contracts.clock import Clock
    from palaestra.contracts.episodes import EpisodeResult
    from palaestra.contracts.sink import Sample

PREFIX = "events.out.tfevents."  # TensorBoard reads the files of a directory in the order of their names
FLUSH_SECONDS = 5.0  # how far the page may lag behind the run


class TensorBoardSink:
    name = "tensorboard"

    def __init__(self, directory: Path, hyperparameters: Mapping[str, Any], clock: Clock) -> None:
        self._messages = _Messages()
        self._clock = clock
        self._flushed_at = clock.monotonic()
        session = 1 + _last_session(directory)
        self._file = EventFile(directory / f"{PREFIX}{session:010d}.palaestra")
        self._file.append(self._messages.version(clock.now()))
        if session == 1 and hyperparameters:
            self._file.append(self._messages.text(clock.now(), "hyperparameters", markdown_table(hyperparameters)))
        self._file.flush()

    def write(self, sample: Sample) -> None:
        for episode in sample.episodes:
            self._file.append(self._messages.scalars(sample.at, episode.env_step, _of_episode(episode)))
        values = {**sample.metrics, **sample.timings}
        if sample.episodes:  # their own points stand for the mean
            values.pop(EPISODIC_RETURN, None)
            values.pop(EPISODIC_LENGTH, None)
        self._file.append(self._messages.scalars(sample.at, sample.step, values))
        if self._clock.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def rewind(self, step: int) -> None:
        """Tell TensorBoard to forget points after `step`, in its own words (a session start)."""
        self._file.append(self._messages.session_start(self._clock.now(), step + 1))
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


class _Messages:
    """TensorBoard's protocol buffers, serialised."""

    def __init__(self) -> None:
        self._event = import_module("tensorboard.compat.proto.event_pb2")
        self._summary = import_module("tensorboard.compat.proto.summary_pb2")
        self._tensor = import_module("tensorboard.compat.proto.tensor_pb2")
        self._types = import_module("tensorboard.compat.proto.types_pb2")

    def version(self, at: float) -> bytes:
        return self._serialised(wall_time=at, file_version="brain.Event:2")

    def session_start(self, at: float, step: int) -> bytes:
        session_log = self._event.SessionLog(status=self._event.SessionLog.START)
        return self._serialised(wall_time=at, step=step, session_log=session_log)

    def scalars(self, at: float, step: int, values: Mapping[str, float]) -> bytes:
        value_of = self._summary.Summary.Value
        entries = [value_of(tag=tag, simple_value=value) for tag, value in values.items()]
        return self._serialised(wall_time=at, step=step, summary=self._summary.Summary(value=entries))

    def text(self, at: float, tag: str, text: str) -> bytes:
        plugin = self._summary.SummaryMetadata.PluginData(plugin_name="text")
        entry = self._summary.Summary.Value(
            tag=f"{tag}/text_summary",  # as torch and CleanRL name it
            metadata=self._summary.SummaryMetadata(plugin_data=plugin),
            tensor=self._tensor.TensorProto(dtype=self._types.DT_STRING, string_val=[text.encode()]),
        )
        return self._serialised(wall_time=at, step=0, summary=self._summary.Summary(value=[entry]))

    def _serialised(self, **fields: Any) -> bytes:
        serialised: bytes = self._event.Event(**fields).SerializeToString()
        return serialised


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
