"""What is new in a run directory since it was last scanned, so that a machine with another disk can keep a copy.

Files travel in blocks that changed, logs and rows of replay buffers by what was appended, the metrics as one
consistent state, and a checkpoint once. `run_mirror` applies the changes.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from palaestra.checkpoints import sidecar as sidecar_text
from palaestra.checkpoints.durable import committed_epochs
from palaestra.checkpoints.files import (
    epoch_of_data,
    epoch_of_sidecar,
    is_segment_name,
    open_regular_file,
    read_regular_file,
    sidecar_name,
)
from palaestra.checkpoints.replay_segments import read_from, segments_of
from palaestra.core.errors import DamagedFile
from palaestra.runs.directory import REPLAY_SEGMENTS, RunDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from palaestra.core.checkpoint import Checkpoint

logger = logging.getLogger(__name__)

BLOCK_BYTES = 4096  # a page of SQLite
DIGEST_BYTES = 16
MAX_FILE_BYTES = 1 << 40
_RUN = RunDirectory(Path())
STATUS = _RUN.status_file.name
METRICS = _RUN.metrics_file.name
JOURNAL = _RUN.journal_file.name
CHECKPOINTS = _RUN.checkpoints.name
APPENDED = frozenset(folder.name for folder in (_RUN.logs, _RUN.tensorboard, _RUN.tensorboard_eval))  # files that grow
NOT_SENT = {f"{METRICS}-wal", f"{METRICS}-shm", f"{METRICS}-journal"}  # parts of a database that is sent as one
NOT_RESUMED = APPENDED | {_RUN.videos.name, _RUN.replays.name}  # no trainer reads them


@dataclass(frozen=True)
class FilePatch:
    """Blocks of a file that changed; a file that is new is one piece from offset 0."""

    path: str  # relative to the run directory, with slashes
    size: int  # of the whole file afterwards, in bytes
    pieces: tuple[tuple[int, bytes], ...]  # (offset, bytes)


@dataclass(frozen=True)
class Appended:
    path: str
    data: bytes


@dataclass(frozen=True)
class FileRemoved:
    path: str


@dataclass(frozen=True)
class CheckpointSaved:
    epoch: int
    sidecar: bytes
    parts: dict[str, bytes]  # file name -> bytes; empty: only the sidecar changed, or names fewer files


@dataclass(frozen=True)
class RowsAppended:
    """To a segment of the replay buffers; the checkpoint that needs them follows."""

    name: str
    offset: int  # bytes that the segment has before
    data: bytes


@dataclass(frozen=True)
class CheckpointRemoved:
    epoch: int


Change = FilePatch | Appended | FileRemoved | CheckpointSaved | RowsAppended | CheckpointRemoved


def size_of(change: Change) -> int:
    """Bytes of content that travel with it."""
    match change:
        case FilePatch(pieces=pieces):
            return sum(len(data) for _, data in pieces)
        case Appended(data=data) | RowsAppended(data=data):
            return len(data)
        case CheckpointSaved(sidecar=text, parts=parts):
            return len(text) + sum(map(len, parts.values()))
        case _:
            return 0


@dataclass(frozen=True)
class _Sent:
    """How a file stood when it was last sent."""

    signature: tuple[int, ...]  # of its stat: unchanged means that nothing has to be read
    size: int
    blocks: tuple[bytes, ...] = ()  # a digest for each; none of a file that only grows


@dataclass
class RunScanner:
    """Scans one run directory again and again; each change is returned once, in an order that is safe to apply.

    Metrics come before the checkpoints that they belong to, a checkpoint's removal after the newer one was saved, and
    the status last: whoever is interrupted in between has the run as it was a moment before.
    """

    directory: RunDirectory
    skipped: frozenset[str] = frozenset()  # folders that are not scanned
    _files: dict[str, _Sent] = field(default_factory=dict)
    _sidecars: dict[int, bytes] = field(default_factory=dict)  # epoch -> as it was sent
    _segments: dict[str, int] = field(default_factory=dict)  # of replay buffers: name -> bytes that were sent

    def scan(self, *, is_last: bool = False) -> list[Change]:
        """`is_last`: read everything again, also what looks unchanged; clocks of file systems tick in milliseconds."""
        if is_last:
            self._files = {name: replace(sent, signature=sent.signature[:1]) for name, sent in self._files.items()}
        checkpoints = list(self._saved_checkpoints())  # read first: the metrics must not be older than they are
        removed = self._removed_checkpoints()
        names = list(_files_in(self.directory.path, self.skipped))
        others = [name for name in names if name not in {STATUS, METRICS}]
        changes = [change for name in others for change in self._file(name)]
        changes += self._metrics()
        changes += [*checkpoints, *removed]
        changes += self._removed_files(names)
        return changes + list(self._file(STATUS))

    def has_new_checkpoint(self) -> bool:
        """A quick look, between scans."""
        return any(epoch not in self._sidecars for epoch in committed_epochs(self.directory.checkpoints))

    def forget_metrics(self) -> None:
        """Send them whole with the next scan."""
        self._files.pop(METRICS, None)

    def _file(self, name: str) -> Iterator[Change]:
        path = self.directory.path / name
        try:
            about = path.stat(follow_symlinks=False)
            signature = (about.st_ino, about.st_size, about.st_mtime_ns)
            sent = self._files.get(name)
            if sent is not None and sent.signature == signature:
                return
            if name == JOURNAL or name.partition("/")[0] in APPENDED:
                yield from self._appended(name, sent, signature)
            else:
                with open_regular_file(path, MAX_FILE_BYTES, follow_links=False) as (stream, _):
                    data = stream.read()
                yield from self._patched(name, data, signature)
        except FileNotFoundError:  # replaced or removed just now: the next scan finds out
            return

    def _appended(self, name: str, sent: _Sent | None, signature: tuple[int, ...]) -> Iterator[Appended]:
        is_same_file = sent is not None and sent.signature[0] == signature[0] and sent.size <= signature[1]
        start = sent.size if sent is not None and is_same_file else 0
        with (self.directory.path / name).open("rb") as stream:
            stream.seek(start)
            data = stream.read(signature[1] - start)
        if name == JOURNAL:  # others append to it as well, so only whole lines
            data = data[: data.rfind(b"\n") + 1]
        self._files[name] = _Sent((signature[0], start + len(data), signature[2]), start + len(data))
        if data or sent is None:
            yield Appended(name, data)

    def _patched(self, name: str, data: bytes, signature: tuple[int, ...]) -> Iterator[FilePatch]:
        sent = self._files.get(name)
        blocks = tuple(_digest(data[start : start + BLOCK_BYTES]) for start in range(0, len(data), BLOCK_BYTES))
        self._files[name] = _Sent(signature, len(data), blocks)
        before = sent.blocks if sent is not None and name != STATUS else ()  # the copy names another process
        changed = [number for number, block in enumerate(blocks) if number >= len(before) or before[number] != block]
        if changed or sent is None or sent.size != len(data):
            yield FilePatch(name, len(data), tuple(_pieces(data, changed)))

    def _metrics(self) -> Iterator[Change]:
        path = self.directory.metrics_file
        signature = (*_signature(path), *_signature(path.with_name(f"{path.name}-wal")))
        sent = self._files.get(METRICS)
        if not path.exists() or (sent is not None and sent.signature == signature):
            return
        data = read_metrics(path)
        if data:
            yield from self._patched(METRICS, data, signature)

    def _saved_checkpoints(self) -> Iterator[CheckpointSaved | RowsAppended]:
        """Each after the rows that it needs; new ones first, because a copy removes a segment as soon as no checkpoint
        names it, and an older checkpoint may have given up what a new one still needs."""
        epochs = committed_epochs(self.directory.checkpoints)
        for epoch in sorted(epochs, key=lambda epoch: (epoch in self._sidecars, epoch)):
            try:
                text = read_regular_file(self.directory.checkpoints / sidecar_name(epoch), sidecar_text.MAX_BYTES)
                if self._sidecars.get(epoch) == text:
                    continue
                change = self._saved(epoch, text)
                rows = list(self._new_rows(sidecar_text.decode(text, sidecar_name(epoch))))
            except (FileNotFoundError, DamagedFile) as error:  # retention took it away meanwhile, or it is damaged
                logger.info("Checkpoint %d of %s is not sent: %s", epoch, self.directory.path, error)
                continue
            self._sidecars[epoch] = text
            yield from rows
            yield change

    def _new_rows(self, checkpoint: Checkpoint) -> Iterator[RowsAppended]:
        for segment in segments_of(checkpoint):
            offset = self._segments.get(segment.name, 0)
            for data in read_from(self.directory.checkpoints, segment, offset):
                yield RowsAppended(segment.name, offset, data)
                offset += len(data)
            self._segments[segment.name] = offset

    def _saved(self, epoch: int, text: bytes) -> CheckpointSaved:
        folder = self.directory.checkpoints
        files = sidecar_text.decode(text, sidecar_name(epoch)).files
        before = self._sidecars.get(epoch)
        known = sidecar_text.decode(before, sidecar_name(epoch)).files if before is not None else {}
        if known and all(known.get(name) == entry for name, entry in files.items()):
            return CheckpointSaved(epoch, text, {})
        parts = {name: read_regular_file(folder / name, entry["size"]) for name, entry in files.items()}
        for name, data in parts.items():
            if sidecar_text.digest(data) != files[name]:
                raise DamagedFile(f"{folder / name}: its bytes are not those that were saved (sha256 differs).")
        return CheckpointSaved(epoch, text, parts)

    def _removed_checkpoints(self) -> list[CheckpointRemoved]:
        there = set(committed_epochs(self.directory.checkpoints))
        gone = sorted(epoch for epoch in self._sidecars if epoch not in there)
        for epoch in gone:
            del self._sidecars[epoch]
        return [CheckpointRemoved(epoch) for epoch in gone]

    def _removed_files(self, names: Iterable[str]) -> list[Change]:
        gone = sorted(self._files.keys() - {*names, METRICS, STATUS})
        for name in gone:
            del self._files[name]
        return [FileRemoved(name) for name in gone]


def read_metrics(path: Path) -> bytes:
    """One consistent state of a `metrics.db`, also while a run writes it; empty when there is none yet.

    The bytes are those of a database without a log beside it.
    """
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(":memory:")) as copy,
        ):
            source.backup(copy)
            data = bytearray(copy.serialize())
    except sqlite3.Error as error:
        logger.warning("%s is not sent this time: %s.", path, error)
        return b""
    data[18:20] = b"\x01\x01"[: len(data[18:20])]  # of SQLite's header: no write-ahead log
    return bytes(data)


def _files_in(folder: Path, skipped: frozenset[str], prefix: str = "") -> Iterator[str]:
    """Relative names, sorted. Locks and temporary files have hidden names; checkpoints are sent as such."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        name = f"{prefix}{entry.name}"
        if entry.name.startswith(".") or name in skipped or name in NOT_SENT or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _files_in(folder / entry.name, skipped, f"{name}/")
        elif not _is_of_checkpoint(name) and stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
            yield name


def _is_of_checkpoint(name: str) -> bool:
    folder, _, last = name.rpartition("/")
    is_segment = folder == f"{CHECKPOINTS}/{REPLAY_SEGMENTS}" and is_segment_name(last)
    is_data = epoch_of_sidecar(last) is not None or epoch_of_data(last) is not None
    return is_segment or (folder == CHECKPOINTS and is_data)


def _pieces(data: bytes, changed: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Neighbouring blocks as one piece."""
    first = last = -1
    for number in changed:
        if number != last:
            if last >= 0:
                yield first * BLOCK_BYTES, data[first * BLOCK_BYTES : last * BLOCK_BYTES]
            first = number
        last = number + 1
    if last >= 0:
        yield first * BLOCK_BYTES, data[first * BLOCK_BYTES : last * BLOCK_BYTES]


def _digest(block: bytes) -> bytes:
    return hashlib.blake2b(block, digest_size=DIGEST_BYTES).digest()


def _signature(path: Path) -> tuple[int, ...]:
    try:
        about = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return ()
    return about.st_ino, about.st_size, about.st_mtime_ns
