"""Log and metrics of the run that a viewer follows, as they are written."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypedDict

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.web.request_parsing import Body
from palaestra.web.resources.metrics import MetricPoint

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory
    from palaestra.web.context import AppContext

LOG_BYTES = 64 * 1024  # in one message; a long log starts with its end
SAMPLES = 200  # in one message


LogMessage = TypedDict(  # functional syntax: `from` is a keyword
    "LogMessage", {"type": Literal["log"], "run": str, "text": str, "from": int, "next": int}
)


class MetricsMessage(TypedDict):
    type: Literal["metrics"]
    run: str
    points: list[MetricPoint]
    row: int


class FollowBody(Body):
    run: str
    log: bool = False
    metrics: bool = False


class FollowMessage(Body):
    follow: FollowBody | None


@dataclass(frozen=True)
class FollowState:
    directory: RunDirectory
    log: int | None  # bytes sent; None: not followed
    sample: int | None  # the last one sent; None: not followed


class RunFollower:
    """Follows one run. Its methods run on the event loop and read files in a thread."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._state: FollowState | None = None

    async def follow(self, wanted: FollowBody | None) -> None:
        """Starts to follow a run. Raises NotFound."""
        if wanted is None:
            self._state = None
            return
        directory = self._context.daemon.directory(wanted.run)
        self._state = await asyncio.to_thread(_begin, directory, wanted)

    async def collect(self) -> list[LogMessage | MetricsMessage]:
        state = self._state
        if state is None:
            return []
        messages, new_state = await asyncio.to_thread(_collect, state)
        if self._state is state:  # no other run was requested meanwhile
            self._state = new_state
        return messages


def _begin(directory: RunDirectory, wanted: FollowBody) -> FollowState:
    log = max(0, _size(directory) - LOG_BYTES) if wanted.log else None
    return FollowState(directory, log, _newest_sample(directory) if wanted.metrics else None)


def _collect(state: FollowState) -> tuple[list[LogMessage | MetricsMessage], FollowState]:
    messages: list[LogMessage | MetricsMessage] = []
    if state.log is not None:
        begin = state.log if state.log <= _size(state.directory) else 0  # it was truncated: all of it is new
        text = _read_log(state.directory, begin)
        if text:
            at = begin + len(text)
            messages.append(_log_message(state.directory.id, text, begin, at))
            state = replace(state, log=at)
    if state.sample is not None:
        points, sample = _read_points(state.directory, state.sample)
        if points:
            messages.append({"type": "metrics", "run": state.directory.id, "points": points, "row": sample})
        state = replace(state, sample=sample)
    return messages, state


def _log_message(run: str, content: bytes, begin: int, end: int) -> LogMessage:
    text = content.decode("utf-8", errors="replace")
    return {"type": "log", "run": run, "text": text, "from": begin, "next": end}


def _size(directory: RunDirectory) -> int:
    try:
        return _log_path(directory).stat().st_size
    except OSError:
        return 0


def _log_path(directory: RunDirectory) -> Path:
    output = directory.output_file()
    return output if output.exists() else directory.log_file()


def _read_log(directory: RunDirectory, begin: int) -> bytes:
    """Reads whole UTF-8 characters; a partial one at the end is left for the next call."""
    try:
        descriptor = os.open(_log_path(directory), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        content = os.pread(descriptor, LOG_BYTES, begin)
    finally:
        os.close(descriptor)
    return content[: len(content) - _incomplete_bytes(content)]


def _incomplete_bytes(content: bytes) -> int:
    """Returns the number of bytes at the end that are an incomplete UTF-8 character."""
    for back in range(1, min(4, len(content)) + 1):
        byte = content[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return back if needed > back else 0
    return 0


def _newest_sample(directory: RunDirectory) -> int:
    try:
        with MetricsReader(directory.metrics_file) as reader:
            return reader.newest_sample()
    except (NotFound, DamagedFile):
        return 0


def _read_points(directory: RunDirectory, after: int) -> tuple[list[MetricPoint], int]:
    """Returns new samples. A resumed run removes samples; then everything after its newest one counts as new."""
    try:
        with MetricsReader(directory.metrics_file) as reader:
            after = min(after, reader.newest_sample())
            found = reader.tail(after, SAMPLES)
    except (NotFound, DamagedFile):
        return [], after
    points: list[MetricPoint] = [
        {"row": one.sample, "step": one.step, "name": one.name, "value": one.value} for one in found
    ]
    return points, max((one.sample for one in found), default=after)
