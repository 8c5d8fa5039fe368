"""The lines of `checkpoint_log.json`, changed in the file without being held in memory.

A training that saves every second has thousands of them by the hour, and a save changes two. So only the places of
those that may still change are remembered; all others go from the old file into the new one, a piece at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.checkpoints.durable import REAL, replace_file

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping
    from pathlib import Path

    from palaestra.checkpoints.filesystem import Content, FileSystem

    Place = tuple[int, int]  # where a line begins and ends, in bytes

BETWEEN, TAIL = b",\n", b"\n]}\n"
COPIED_BYTES = 1 << 16


class LogLines:
    """By epoch, in that order. The file is replaced whole, so that it is the old one or the new one."""

    def __init__(self, path: Path, head: bytes, fs: FileSystem = REAL) -> None:
        self._path = path
        self._head = head
        self._fs = fs
        self._places: dict[int, Place] = {}  # of lines that may still change, in order
        self._end = 0  # of the last line
        self._newest = -1  # its epoch
        self._written: object = None  # how the file stood when it was written

    @property
    def are_known(self) -> bool:
        """The file is what was last written here. Other processes write it too: another then stands in its place."""
        return self._written is not None and self._written == self._state()

    def can_change(self, epochs: Iterable[int]) -> bool:
        """Whether they are new at the end, or were said to change."""
        return all(epoch in self._places or epoch > self._newest for epoch in epochs)

    def write(self, lines: Mapping[int, bytes], may_change: Container[int]) -> None:
        """All lines there are, in order."""
        places, begin = {}, len(self._head)
        for epoch, line in lines.items():
            if epoch in may_change:
                places[epoch] = (begin, begin + len(line))
            begin += len(line) + len(BETWEEN)
        text = self._head + BETWEEN.join(lines.values()) + TAIL
        self._replace(text, places, len(text) - len(TAIL), max(lines))

    def change(self, lines: Mapping[int, bytes], may_change: Container[int]) -> None:
        """Those that `can_change`, in order; `may_change` are all that still may."""
        edits, places, moved = [], {}, 0
        for epoch, (begin, end) in self._places.items():
            line = lines.get(epoch)
            longer = 0 if line is None else len(line) - (end - begin)
            if line is not None:
                edits.append((begin, end, line))
            if epoch in may_change:
                places[epoch] = (begin + moved, end + moved + longer)
            moved += longer
        added, end = b"", self._end + moved
        for epoch, line in lines.items():
            if epoch > self._newest:
                added += BETWEEN + line
                places[epoch] = (end + len(added) - len(line), end + len(added))
        edits.append((self._end, self._end + len(TAIL), added + TAIL))
        self._replace(_edited(self._path, edits), places, end + len(added), max(self._newest, *lines))

    def _replace(self, content: Content, places: dict[int, Place], end: int, newest: int) -> None:
        self._written = None  # should it fail
        replace_file(self._path.parent, self._path.name, content, self._fs)
        self._places, self._end, self._newest = places, end, newest
        self._written = self._state()

    def _state(self) -> object:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _edited(path: Path, edits: Iterable[tuple[int, int, bytes]]) -> Iterator[bytes]:
    """The file's text, with other words from `begin` to `end` of each edit."""
    with path.open("rb") as file:
        at = 0
        for begin, end, words in edits:
            file.seek(at)
            while at < begin:
                piece = file.read(min(begin - at, COPIED_BYTES))
                if not piece:
                    raise OSError(f"{path} became shorter while it was read")
                yield piece
                at += len(piece)
            yield words
            at = end
