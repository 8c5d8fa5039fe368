"""Log and metrics of the one run that a viewer looks at, piece by piece as they are written."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypedDict

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.runs.metrics_reader import MetricsReader
from palaestra.web.request_parsing import Body
from palaestra.web.resources.metrics import MetricPoint

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory
    from palaestra.web.context import House

LOG_BYTES = 64 * 1024  # in one message; of a long log only the end is told at first
SAMPLES = 200  # in one message


LogMessage = TypedDict(  # `from` is a word of Python's
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
class Reached:
    directory: RunDirectory
    log: int | None  # bytes told; None: not followed
    sample: int | None  # the last told; None: not followed


class Follower:
    """`follow` and `collect` are called on the loop; files are read in a thread."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._reached: Reached | None = None

    async def follow(self, wanted: FollowBody | None) -> None:
        """NotFound when there is no such run."""
        if wanted is None:
            self._reached = None
            return
        directory = self._house.daemon.directory(wanted.run)
        self._reached = await asyncio.to_thread(_begin, directory, wanted)

    async def collect(self) -> list[LogMessage | MetricsMessage]:
        reached = self._reached
        if reached is None:
            return []
        messages, now = await asyncio.to_thread(_collect, reached)
        if self._reached is reached:  # nobody has asked for another run meanwhile
            self._reached = now
        return messages


def _begin(directory: RunDirectory, wanted: FollowBody) -> Reached:
    log = max(0, _size(directory) - LOG_BYTES) if wanted.log else None
    return Reached(directory, log, _newest_sample(directory) if wanted.metrics else None)


def _collect(reached: Reached) -> tuple[list[LogMessage | MetricsMessage], Reached]:
    messages: list[LogMessage | MetricsMessage] = []
    if reached.log is not None:
        begin = reached.log if reached.log <= _size(reached.directory) else 0  # it was cut: what is there now is new
        text = _read_log(reached.directory, begin)
        if text:
            at = begin + len(text)
            messages.append(_log_message(reached.directory.id, text, begin, at))
            reached = replace(reached, log=at)
    if reached.sample is not None:
        points, sample = _read_points(reached.directory, reached.sample)
        if points:
            messages.append({"type": "metrics", "run": reached.directory.id, "points": points, "row": sample})
        reached = replace(reached, sample=sample)
    return messages, reached


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
    """Whole characters only: a piece that ends within one is cut before it."""
    try:
        descriptor = os.open(_log_path(directory), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        content = os.pread(descriptor, LOG_BYTES, begin)
    finally:
        os.close(descriptor)
    return content[: len(content) - _unfinished(content)]


def _unfinished(content: bytes) -> int:
    """How many bytes at the end begin a UTF-8 character that is not there whole."""
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
    """A resumed run takes samples back: then all that is newer than the newest is told."""
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
