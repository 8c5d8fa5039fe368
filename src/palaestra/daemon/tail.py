"""The end of what a worker printed, safe to show."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from palaestra.core.errors import escape_controls

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory

MAX_LINES = 20
MAX_BYTES = 8192
MAX_LINE = 500


def read_end(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Nothing when there is no such file; a link is not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, max_bytes, max(0, size - max_bytes))
    finally:
        os.close(descriptor)


def read_tail(directory: RunDirectory) -> list[str]:
    """The last lines, oldest first, each on one line whatever it contains."""
    content = read_end(directory.output_file())
    missing = MAX_BYTES - len(content)
    if missing > 0:  # it may have been cut just now
        content = read_end(directory.earlier_output_file(), missing) + content
    text = content.decode("utf-8", errors="backslashreplace")
    lines = [line for line in text.replace("\r", "\n").split("\n") if line.strip()]
    return [_shortened(escape_controls(line.rstrip())) for line in lines[-MAX_LINES:]]


def _shortened(line: str) -> str:
    """Both ends of it: an error often stands at the end of a line that something else began."""
    half = MAX_LINE // 2
    return line if len(line) <= MAX_LINE else f"{line[: half - 1]}…{line[-half:]}"
