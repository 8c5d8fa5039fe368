"""The replays of a run, by age."""

from __future__ import annotations

import gzip
import io
import json
import re
import stat
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import DamagedFile, NotFound, RunFailed
from palaestra.core.evaluation import DEFAULT
from palaestra.runs.files import finite, stamped, unstamped, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from palaestra.runs.directory import RunDirectory


def replay_path(directory: Path, epoch: int, seed: int, simulation: str = DEFAULT) -> Path:
    """Named like the videos of the same episodes"""
    name = "" if simulation == DEFAULT else f"{simulation}-"
    return directory / f"{epoch}-{name}seed{seed}{SUFFIX}"


def list_replays(directory: RunDirectory) -> list[Path]:
    """Newest first; those of one instant by name"""
    found = directory.replays.glob(f"*{SUFFIX}")
    files = [path for path in found if path.is_file() and not path.name.startswith(".")]
    return sorted(files, key=lambda path: (-path.stat().st_mtime_ns, path.name))


def newest_replay(directory: RunDirectory) -> Path:
    found = list_replays(directory)
    if not found:
        raise NotFound(
            f"Run {directory.id} has no replay.",
            f"'palaestra eval {directory.id} --replays' records the episodes it plays.",
        )
    return found[0]


SCHEMA_VERSION = 1
SUFFIX = ".json.gz"
MAX_BYTES = 64 << 20  # compressed, on disk
MAX_TEXT = 256 << 20  # unpacked
MAX_LINE = 1 << 20
MAX_STEPS = 1_000_000
OPEN, CLOSE = ',"steps":[\n', '\n],"end":'


@dataclass(frozen=True)
class ReplayFile:
    header: dict[str, Any]  # without its schema_version
    steps: list[bytes]  # JSON, not parsed yet
    end: dict[str, Any]


class ReplayWriter:
    """Gathers steps and appears under its name when it is complete; a failure leaves nothing behind."""

    def __init__(self, path: Path, kind: str, header: dict[str, Any]) -> None:
        self.path = path
        self.step_count = 0
        self._end: dict[str, Any] = {}
        self._packed = io.BytesIO()
        self._stream = gzip.GzipFile(filename="", mode="wb", fileobj=self._packed, mtime=0)  # same bytes, same file
        self._written = 0
        self._write(_text(stamped({"kind": kind, **header}, SCHEMA_VERSION))[:-1] + OPEN)

    def __enter__(self) -> ReplayWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Write it all down; who does not get here leaves nothing behind."""
        self._write(CLOSE + _text(self._end) + "}\n")
        self._stream.close()
        write_atomic(self.path, self._packed.getvalue(), durable=False)

    def add(self, step: dict[str, Any]) -> None:
        self._write(("" if self.step_count == 0 else ",\n") + _text(step))
        self.step_count += 1

    def finish(self, end: dict[str, Any]) -> None:
        """What the last line says"""
        self._end = end

    def _write(self, text: str) -> None:
        """Refuses replays that could not be read again."""
        content = text.encode()
        self._written += len(content)
        if len(content) > MAX_LINE or self._written > MAX_TEXT or self.step_count > MAX_STEPS:
            raise RunFailed(
                f"The replay {self.path.name} is too large after {self.step_count} steps: {self._written} bytes of "
                f"{MAX_TEXT}, its last line {len(content)} of {MAX_LINE}.",
                "Record shorter episodes, or fewer agents.",
            )
        self._stream.write(content)


def read_kind(path: Path) -> str:
    """Which plugin can read it"""
    header = _parse_header(next(_lines(path), b""), path)
    kind = header.get("kind")
    if not isinstance(kind, str) or not re.fullmatch(r"[\w.-]{1,64}", kind, re.ASCII):
        raise DamagedFile(f"{path} does not say what kind of replay it is: kind={str(kind)[:64]!r}.")
    return kind


def read_replay_file(path: Path) -> ReplayFile:
    """All of it, within limits; cut short, bent or blown up it is refused with the numbers."""
    lines = _lines(path)
    header = _parse_header(next(lines, b""), path)
    steps: list[bytes] = []
    for line in lines:
        if line.startswith(b"]"):
            break
        steps.append(line.rstrip(b"\n,"))
        if len(steps) > MAX_STEPS:
            raise DamagedFile(f"{path} has more than {MAX_STEPS} steps.")
    else:
        raise DamagedFile(f"{path} was cut short: it breaks off after {len(steps)} steps.")
    if steps == [b""]:  # an episode of no steps leaves the empty line between the brackets
        steps = []
    end = parse_object(b"{" + line[1:].lstrip(b", "), f"{path}, its last line")
    if next(lines, None) is not None:
        raise DamagedFile(f"{path} goes on after its end.")
    closing = end.get("end")
    return ReplayFile(header, steps, closing if isinstance(closing, dict) else {})


def parse_object(text: bytes, source: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{source} is not valid JSON: {error}.") from error
    if not isinstance(data, dict):
        raise DamagedFile(f"{source} holds a {type(data).__name__} where a mapping was expected.")
    return data


def _parse_header(line: bytes, path: Path) -> dict[str, Any]:
    beginning, mark, _ = line.rpartition(OPEN.rstrip("\n").encode())
    if not mark:
        raise DamagedFile(f"{path} is not a replay: its first line does not end in {OPEN.strip()!r}.")
    return unstamped(parse_object(beginning + b"}", f"{path}, its first line"), SCHEMA_VERSION, path)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # opening a pipe would wait for ever
            raise DamagedFile(f"{path} is no regular file.")
        if found.st_size > MAX_BYTES:
            raise DamagedFile(f"{path} has {found.st_size} bytes; a replay has at most {MAX_BYTES}.")
        with path.open("rb") as raw:
            yield from _unpacked(gzip.GzipFile(fileobj=raw), path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"The file does not exist: {path}.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedFile(f"{path} cannot be unpacked: {error}. It was cut short, or is no replay.") from error
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror or error}.") from error


def _unpacked(stream: gzip.GzipFile, path: Path) -> Iterator[bytes]:
    total = 0
    while line := stream.readline(MAX_LINE + 1):
        total += len(line)
        if len(line) > MAX_LINE:
            raise DamagedFile(f"{path} has a line of more than {MAX_LINE} bytes; it is not one of ours.")
        if total > MAX_TEXT:
            raise DamagedFile(f"{path} unpacks to more than {MAX_TEXT} bytes; it is not one of ours.")
        yield line


def _text(data: dict[str, Any]) -> str:
    return json.dumps(finite(data), separators=(",", ":"), allow_nan=False)
