"""Small files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import os
import re
from typing import TYPE_CHECKING, Any

from palaestra.config.yaml import dump_yaml, parse_yaml
from palaestra.core.errors import DamagedFile, NotFound
from palaestra.runs.processes import is_alive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_JSON_BYTES = 16 << 20
MAX_YAML_BYTES = 1 << 20

_serials = itertools.count(1)
_in_flight: set[Path] = set()  # temporary files that this process is still writing


def write_atomic(path: Path, data: bytes | str, *, durable: bool = True) -> None:
    """Replace `path` whole: a reader sees the old content or the new one, never a mixture.

    `durable` adds the two fsyncs that make it survive a power cut; without them it still survives kill -9.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    temporary = path.with_name(f".tmp-{os.getpid()}-{next(_serials)}-{path.name}")
    _in_flight.add(temporary)
    try:
        with open(temporary, "xb", opener=_private) as stream:
            stream.write(content)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    finally:
        _in_flight.discard(temporary)
    if durable:
        fsync_directory(path.parent)


def fsync_directory(path: Path) -> None:
    """Make the names in a directory durable, not only the files behind them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_line(path: Path, text: str) -> None:
    """Add one line in one write, so that lines of two processes never mix.

    A line that a crash or a full disk left torn is closed first: it costs itself, not its successor.
    """
    if "\n" in text:
        raise ValueError(f"one line was expected, not {text.count(chr(10)) + 1}")
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        line = ("\n" if torn else "") + text + "\n"
        content = line.encode("utf-8", errors="backslashreplace")
        written = os.write(descriptor, content)
        if written != len(content):
            raise OSError(f"only {written} of {len(content)} bytes could be written to {path}")
    finally:
        os.close(descriptor)


def write_json(path: Path, data: Any, *, durable: bool = True) -> None:
    """Strict JSON, so that every tool can read it: NaN and infinities become the strings of that name."""
    write_atomic(path, indented(finite(data)).encode("utf-8", errors="backslashreplace") + b"\n", durable=durable)


def read_json(path: Path, max_bytes: int = MAX_JSON_BYTES, *, follow_links: bool = True) -> Any:
    """`follow_links` False: for files of a run, which we wrote ourselves; a link there may come from elsewhere."""
    content = read_bounded(path, max_bytes, follow_links=follow_links)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} is not valid JSON: {error}.") from error


def write_yaml(path: Path, data: Any, *, durable: bool = True) -> None:
    write_atomic(path, dump_yaml(data), durable=durable)


def read_yaml(path: Path, max_bytes: int = MAX_YAML_BYTES) -> Any:
    return parse_yaml(read_bounded(path, max_bytes), str(path))


def sweep_temporaries(directory: Path) -> list[Path]:
    """Remove what dead processes left half written in `directory`; those of living ones stay."""
    removed = []
    for path in directory.glob(".tmp-*"):
        if path.is_file() and is_abandoned(path):
            path.unlink(missing_ok=True)
            removed.append(path)
    return removed


def is_abandoned(path: Path) -> bool:
    """Whether no process works any more on this `.KIND-PID-…` file or directory?

    Our own pid is no excuse: in a container the process before us had the same one.
    """
    match = re.match(r"\.[a-z]+-(\d+)-", path.name)
    if match is None:
        return False
    pid = int(match.group(1))
    return path not in _in_flight if pid == os.getpid() else not is_alive(pid, None)


@contextlib.contextmanager
def in_flight(path: Path) -> Iterator[Path]:
    """Keep the sweeps of this process away from `path` while it is being made or removed."""
    _in_flight.add(path)
    try:
        yield path
    finally:
        _in_flight.discard(path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def read_bounded(path: Path, max_bytes: int, *, follow_links: bool = True) -> bytes:
    """The content of a file of at most `max_bytes`; a longer or unreadable one raises `DamagedFile`."""
    flags = os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)  # a pipe in its place must not make us wait
    try:
        with open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags | os.O_CLOEXEC)) as stream:
            content = stream.read(max_bytes + 1) or b""
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"The file does not exist: {path}.") from error
    except OSError as error:
        reason = "it is a link, and links are not followed here" if error.errno == errno.ELOOP else error.strerror
        raise DamagedFile(f"{path} cannot be read: {reason}.") from error
    if len(content) > max_bytes:
        raise DamagedFile(f"{path} is longer than {max_bytes} bytes; it is not one of ours.")
    return content


def finite(value: Any) -> Any:
    """The same plain data with NaN and infinities spelled out; `float()` reads them back."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {str(key): finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return value


_word = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def indented(value: Any, line: str = "\n") -> str:
    """Of plain data whose keys are texts; `line` begins a new line where the value stands."""
    inner = f"{line}  "
    if isinstance(value, dict) and value:
        entries = [f"{_word(key)}: {indented(entry, inner)}" for key, entry in value.items()]
        return f"{{{inner}{f',{inner}'.join(entries)}{line}}}"
    if isinstance(value, list | tuple) and value:
        return f"[{inner}{f',{inner}'.join([indented(entry, inner) for entry in value])}{line}]"
    return repr(value) if type(value) is int else _word(value)


KEY = "schema_version"


class NewerFormat(DamagedFile):
    """Nothing is wrong with the file: a later version of Palaestra wrote it."""


def stamped(data: dict[str, Any], version: int) -> dict[str, Any]:
    """The same data with its version in front."""
    return {KEY: version, **data}


def unstamped(data: Any, version: int, path: Path) -> dict[str, Any]:
    """The data without its version, once that is known to be one we can read."""
    if not isinstance(data, dict):
        raise DamagedFile(f"{path} holds a {type(data).__name__} where a mapping was expected.")
    found = data.get(KEY)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise DamagedFile(f"{path} has {KEY} {found!r}; a number from 1 to {version} was expected.")
    if found > version:
        raise NewerFormat(
            f"{path} has {KEY} {found}; this Palaestra reads 1 to {version}.",
            "It was written by a newer version; install that one to use it.",
        )
    return {key: value for key, value in data.items() if key != KEY}
