"""The rows of replay buffers on disk: segments, files that only grow, in `checkpoints/replay/`.

A save appends the rows that are new since the last one. The sidecar of a checkpoint names the segments that belong to
it, how many of their bytes, and the checksum of those; what comes behind them belongs to later checkpoints or to a
writer that was killed. A segment that no sidecar names is removed.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from palaestra.checkpoints.durable import save_failed
from palaestra.checkpoints.files import (
    is_segment_name,
    open_regular_file,
    owner_is_dead,
    rank_of_segment,
    segment_entry,
    segment_name,
    temporary_name,
)
from palaestra.core.errors import DamagedFile
from palaestra.runs.directory import REPLAY_SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from palaestra.checkpoints.files import FileSystem
    from palaestra.core.checkpoint import Checkpoint

FOLDER = REPLAY_SEGMENTS
SEGMENTS = 16  # of a full buffer, for one rank; fewer for each of many, so that a sidecar can name all
MOST_NAMED = 256
LEAST_SEGMENT_BYTES = 1 << 20  # of a full one, if the buffer is larger
MAX_SEGMENT_BYTES = 1 << 42
CHUNK_BYTES = 1 << 22
PIECE_BYTES = 16 << 20  # of a segment that is sent to another machine


@dataclass(frozen=True)
class Rows:
    """What a save adds to the segments of one rank."""

    rank: int
    first_row: int
    oldest_row: int  # of the buffer: segments that end before it are not needed any more
    segment_rows: int  # a segment that has so many is not added to
    blocks: Iterable[tuple[int, Sequence[bytes | memoryview]]]  # the row after the last one in it, and its bytes


@dataclass(frozen=True)
class Segment:
    """A file, as far as it belongs to a checkpoint."""

    name: str  # in `FOLDER`
    first_row: int
    end_row: int
    size: int  # bytes
    sha256: str

    @property
    def rank(self) -> int:
        return rank_of_segment(self.name)

    @property
    def entry(self) -> str:
        """As a sidecar has it."""
        return f"{self.first_row} {self.end_row} {self.size} {self.sha256}"


def segments_of(checkpoint: Checkpoint) -> list[Segment]:
    """By rank and row."""
    found = []
    for name, text in checkpoint.replay_segments.items():
        entry = segment_entry(text)
        assert entry is not None, "the sidecar was checked"
        found.append(Segment(name, *entry))
    return sorted(found, key=lambda one: (one.rank, one.first_row))


def segment_rows(capacity: int, row_bytes: int, world_size: int) -> int:
    """For `Rows`: of a buffer of so many rows, in a training of so many processes."""
    share = capacity // max(2, min(SEGMENTS, MOST_NAMED // world_size))
    return max(1, share, min(capacity, LEAST_SEGMENT_BYTES // row_bytes))


class SegmentWriter:
    """Of all ranks: the leader writes for the others."""

    def __init__(self, directory: Path, fs: FileSystem) -> None:
        """`directory`: that of the checkpoints."""
        self._directory = directory
        self._folder = directory / FOLDER
        self._fs = fs
        self._saved: dict[int, list[_Written]] = {}  # by rank, as the newest checkpoint names them
        self._pending: dict[int, list[_Written]] = {}  # as the one that is being saved will

    def next_row(self, rank: int, segment_rows: int) -> int:
        """The first row that the next save of this rank must bring."""
        written = self._saved.get(rank, [])
        if written and written[-1].is_closed and written[-1].rows < segment_rows // 2:  # too small to stay as it is
            return written[-1].first_row
        return written[-1].end_row if written else 0

    def write(self, rows: Iterable[Rows]) -> list[Segment]:
        """The segments that the checkpoint is to name; they are on the disk. `OSError` becomes `SaveFailed`."""
        self._pending = {}
        for one in rows:
            try:
                self._pending[one.rank] = self._write_rank(one)
            except FileNotFoundError as error:  # removed behind our back: the next save writes all rows anew
                self._saved.pop(one.rank, None)
                raise save_failed("The replay buffer", self._folder, error) from error
            except OSError as error:
                raise save_failed("The replay buffer", self._folder, error) from error
        return [written.segment() for each in self._pending.values() for written in each]

    def confirm(self) -> None:
        """The checkpoint that names them is on the disk."""
        self._saved, self._pending = self._pending, {}

    def continue_from(self, segments: Iterable[Segment]) -> None:
        """What a run that resumes has on the disk. Nothing is added to these: another process may have."""
        self._saved = {}
        for one in segments:
            self._saved.setdefault(one.rank, []).append(_Written.closed(one))

    def _write_rank(self, rows: Rows) -> list[_Written]:
        saved = self._saved.get(rows.rank, [])
        kept = [one.copy() for one in saved if one.first_row < rows.first_row and one.end_row > rows.oldest_row]
        for end_row, pieces in rows.blocks:
            last = kept[-1] if kept else None
            if last is None or last.is_closed or last.rows >= rows.segment_rows:
                kept.append(self._begin(rows.rank, kept[-1].end_row if kept else rows.first_row, pieces))
            else:
                self._fs.append(self._folder / last.name, last.size, pieces)
            kept[-1].add(end_row, pieces)
        return kept

    def _begin(self, rank: int, first_row: int, pieces: Sequence[bytes | memoryview]) -> _Written:
        if not self._folder.exists():
            self._folder.mkdir(mode=0o700)
            self._fs.fsync_directory(self._directory)
        name = segment_name(rank, first_row)
        temporary = self._folder / temporary_name(name)
        try:
            self._fs.write_temporary(temporary, pieces)
            self._fs.rename(temporary, self._folder / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self._fs.fsync_directory(self._folder)
        return _Written(name, first_row, first_row, 0, hashlib.sha256())


@dataclass
class _Written:
    """A segment, and what is needed to add to it."""

    name: str
    first_row: int
    end_row: int
    size: int
    hash: Any
    sha256: str = ""  # of a closed one

    @property
    def rows(self) -> int:
        return self.end_row - self.first_row

    @property
    def is_closed(self) -> bool:
        return self.hash is None

    @classmethod
    def closed(cls, segment: Segment) -> _Written:
        return cls(segment.name, segment.first_row, segment.end_row, segment.size, None, segment.sha256)

    def copy(self) -> _Written:
        own = None if self.hash is None else self.hash.copy()
        return _Written(self.name, self.first_row, self.end_row, self.size, own, self.sha256)

    def add(self, end_row: int, pieces: Iterable[bytes | memoryview]) -> None:
        for piece in pieces:
            self.hash.update(piece)
            self.size += len(piece)
        self.end_row = end_row

    def segment(self) -> Segment:
        return Segment(self.name, self.first_row, self.end_row, self.size, self.sha256 or self.hash.hexdigest())


def verify(directory: Path, segments: Iterable[Segment]) -> None:
    """`DamagedFile` with the file and what is wrong, unless all bytes are those that were saved."""
    for segment in segments:
        with _opened(directory, segment) as stream:
            if _digest(stream, segment.size) != segment.sha256:
                raise DamagedFile(
                    f"{directory / FOLDER / segment.name}: its bytes are not those that were saved (sha256 differs)."
                )


def read_segments(
    directory: Path, segments: Iterable[Segment], read: Callable[[BinaryIO, int, str], Iterator[Any]]
) -> Iterator[Any]:
    """What `read` finds in each of them, given the stream, the bytes that belong to the checkpoint, and the path."""
    for segment in segments:
        with _opened(directory, segment) as stream:
            yield from read(stream, segment.size, str(directory / FOLDER / segment.name))


def read_from(directory: Path, segment: Segment, offset: int) -> Iterator[bytes]:
    """The bytes of a segment from `offset` on, as far as they belong to the checkpoint; a piece at a time."""
    with _opened(directory, segment) as stream:
        stream.seek(offset)
        for start in range(offset, segment.size, PIECE_BYTES):
            data = stream.read(min(PIECE_BYTES, segment.size - start))
            yield data


def append_received(directory: Path, name: str, offset: int, data: bytes, fs: FileSystem) -> None:
    """Into a copy of a run: bytes of a segment, in their order. The caller holds the lock."""
    if not is_segment_name(name):
        raise DamagedFile(f"Received a segment of a replay buffer called {name!r}.")
    folder = directory / FOLDER
    if offset:
        fs.append(folder / name, offset, data)
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    temporary = folder / temporary_name(name)
    fs.write_temporary(temporary, data)
    fs.rename(temporary, folder / name)
    fs.fsync_directory(folder)
    fs.fsync_directory(directory)


def sweep(directory: Path, named: Iterable[str], fs: FileSystem) -> list[Path]:
    """Removes the segments that no checkpoint names, and what dead writers left. The caller holds the lock."""
    needed = frozenset(named)
    paths = sorted((directory / FOLDER).iterdir())
    stale = [one for one in paths if (is_segment_name(one.name) and one.name not in needed) or owner_is_dead(one.name)]
    for path in stale:
        fs.unlink(path)
    return stale


@contextmanager
def _opened(directory: Path, segment: Segment) -> Iterator[BinaryIO]:
    """Its stream; it is there and long enough."""
    path = directory / FOLDER / segment.name
    try:
        with open_regular_file(path, MAX_SEGMENT_BYTES, follow_links=False) as (stream, there):
            if there < segment.size:
                raise DamagedFile(f"{path}: {there} bytes, the sidecar says {segment.size} (cut short?).")
            yield stream
    except FileNotFoundError as error:
        raise DamagedFile(f"{path} is missing.") from error


def _digest(stream: BinaryIO, size: int) -> str:
    found = hashlib.sha256()
    while size > 0:
        piece = stream.read(min(CHUNK_BYTES, size))
        if not piece:
            break
        found.update(piece)
        size -= len(piece)
    return found.hexdigest()
