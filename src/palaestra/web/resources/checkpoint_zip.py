"""Checkpoints as zip files: streams downloads, and checks uploaded archives before anything is unpacked."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import zipfile
import zlib
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from starlette.responses import StreamingResponse

from palaestra.checkpoints import sidecar
from palaestra.checkpoints.durable import check_sizes, read_sidecar
from palaestra.checkpoints.files import model_name, sidecar_name
from palaestra.checkpoints.retention import in_use
from palaestra.core.errors import DamagedFile, RefusedFile
from palaestra.web.files import attachment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from palaestra.core.checkpoint import Checkpoint
    from palaestra.runs.directory import RunDirectory

FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # the same checkpoint gives the same bytes
MAX_ENTRIES = 100
MAX_DIRECTORY_BYTES = 1 << 20
MAX_RATIO = 100
PIECE = 1 << 20
END = struct.Struct("<4s4H2LH")  # of the central directory
END_MARK, LONG_END_MARK = b"PK\x05\x06", b"PK\x06\x07"
MAX_COMMENT_BYTES = 1 << 16
LONG_END_BYTES = 20
IS_ENCRYPTED = 0x1
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


class CheckpointArchive(StreamingResponse):
    """A download. Verifies the weights before the first byte and keeps retention from removing them."""

    def __init__(self, directory: RunDirectory, epoch: int, request: Request) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(in_use(directory.checkpoints, epoch))
            described = without_trainer_state(read_sidecar(directory.checkpoints, epoch))
            check_sizes(directory.checkpoints, described)
            weights = stack.enter_context(_verified(directory.checkpoints, described))
            pieces = iter(()) if request.method == "HEAD" else _archive(described, weights)
            name = f"{described.run_name or directory.id}-{epoch}.zip"
            super().__init__(pieces, media_type="application/zip", headers=attachment(name))
            self._held = stack.pop_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)


def without_trainer_state(checkpoint: Checkpoint) -> Checkpoint:
    """Returns the checkpoint without the optimizer state and replay buffers, which are not needed to play it."""
    name = model_name(checkpoint.epoch)
    return replace(checkpoint, files={name: checkpoint.files[name]}, replay_segments={})


@contextlib.contextmanager
def _verified(directory: Path, checkpoint: Checkpoint) -> Iterator[BinaryIO]:
    name = model_name(checkpoint.epoch)
    descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != checkpoint.files[name]["sha256"]:
            raise DamagedFile(f"{name}: its bytes are not those that were saved (sha256 differs).")
        stream.seek(0)
        yield stream


class _ZipBuffer:
    """The output of a ZipFile, taken piece by piece, so that the weights are never in memory as a whole."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Does nothing; ZipFile requires it."""

    def take(self) -> bytes:
        content, self._pieces = b"".join(self._pieces), []
        return content


def _archive(checkpoint: Checkpoint, weights: BinaryIO) -> Iterator[bytes]:
    buffer = _ZipBuffer()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        archive.writestr(zipfile.ZipInfo(sidecar_name(checkpoint.epoch), FIXED_DATE), sidecar.encode(checkpoint))
        entry = zipfile.ZipInfo(model_name(checkpoint.epoch), FIXED_DATE)
        with archive.open(entry, "w", force_zip64=True) as target:
            while piece := weights.read(PIECE):
                target.write(piece)
                yield buffer.take()
    yield buffer.take()


def open_archive(stream: BinaryIO) -> zipfile.ZipFile:
    """Opens an archive, which the caller closes. Raises RefusedFile."""
    _check_end(stream)
    try:
        return zipfile.ZipFile(stream)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
        raise RefusedFile(f"refused: not a valid zip archive ({error}).", "Is the file complete?") from error


def validate_entries(archive: zipfile.ZipFile, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """Returns entries by file name without folders. Raises RefusedFile for any unsafe entry."""
    found: dict[str, zipfile.ZipInfo] = {}
    total = 0
    for entry in archive.infolist():
        reason = _find_problem(entry)
        if reason:
            raise _refused(entry, reason)
        if entry.is_dir():
            continue
        name = PurePosixPath(entry.filename).name
        if name in found:
            raise _refused(entry, "duplicate name")
        total += entry.file_size
        if total > max_bytes:
            raise _refused(entry, f"the archive unpacks to more than {max_bytes:,} bytes")
        found[name] = entry
    return found


def read_pieces(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yields at most the declared size of an entry; zipfile checks its checksum."""
    left = entry.file_size
    try:
        with archive.open(entry) as source:
            while piece := source.read(min(PIECE, left + 1)):
                left -= len(piece)
                if left < 0:
                    raise _refused(entry, "it is larger than declared")
                yield piece
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise _refused(entry, f"unpacking failed ({error})") from error
    if left:
        raise _refused(entry, "it is smaller than declared")


def _find_problem(entry: zipfile.ZipInfo) -> str:
    path, kind = PurePosixPath(entry.filename), stat.S_IFMT(entry.external_attr >> 16)
    if path.is_absolute() or ".." in path.parts or "\\" in entry.filename or ":" in entry.filename:
        return "leaves the target directory"
    if not entry.filename.isprintable() or not path.name or "\x00" in entry.orig_filename:
        return "invalid file name"
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        return "it is a link or a device"
    if entry.flag_bits & IS_ENCRYPTED:
        return "it is encrypted"
    if entry.compress_type not in METHODS:
        return f"unsupported compression ({entry.compress_type})"
    if entry.file_size > MAX_RATIO * max(entry.compress_size, 1024):
        return f"it unpacks to more than {MAX_RATIO} times its size"
    return ""


def _check_end(stream: BinaryIO) -> None:
    """Checks the size of the central directory, because zipfile reads it all at once."""
    size = stream.seek(0, os.SEEK_END)
    begin = max(0, size - END.size - MAX_COMMENT_BYTES - LONG_END_BYTES)
    stream.seek(begin)
    tail = stream.read(size - begin)
    stream.seek(0)
    at = tail.rfind(END_MARK)
    if at < 0 or at + END.size > len(tail):
        raise RefusedFile("refused: not a zip archive.", "Is the file complete?")
    _, _, _, _, entries, directory_bytes, _, _ = END.unpack_from(tail, at)
    if tail[max(0, at - LONG_END_BYTES) :].startswith(LONG_END_MARK):
        raise RefusedFile("refused: the archive is a zip64.", "A checkpoint has two files; zip only those.")
    if entries > MAX_ENTRIES or directory_bytes > MAX_DIRECTORY_BYTES:
        raise RefusedFile(
            f"refused: the archive has {entries} entries in a directory of {directory_bytes} bytes.",
            f"At most {MAX_ENTRIES} entries in {MAX_DIRECTORY_BYTES} bytes are read.",
        )


def _refused(entry: zipfile.ZipInfo, reason: str) -> RefusedFile:
    return RefusedFile(f"refused entry {entry.filename[:200]!r}: {reason}.")
