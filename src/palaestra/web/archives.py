"""Opening a zip that somebody sent: everything that it says of itself is checked before a byte of it is unpacked."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from palaestra.core.errors import RefusedFile

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_ENTRIES = 100
MOST_DIRECTORY_BYTES = 1 << 20
HIGHEST_RATIO = 100
PIECE = 1 << 20
END = struct.Struct("<4s4H2LH")  # of the central directory
END_MARK, LONG_END_MARK = b"PK\x05\x06", b"PK\x06\x07"
LONGEST_COMMENT = 1 << 16
LONG_END_BYTES = 20
IS_ENCRYPTED = 0x1
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


def open_archive(stream: BinaryIO) -> zipfile.ZipFile:
    """The caller closes it. RefusedFile says what is wrong with it."""
    _check_end(stream)
    try:
        return zipfile.ZipFile(stream)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
        raise RefusedFile(f"refused: this is no zip archive ({error}).", "Is it complete?") from error


def checked_entries(archive: zipfile.ZipFile, most_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """File name without folders -> entry. Anything suspicious refuses the whole archive, by name."""
    found: dict[str, zipfile.ZipInfo] = {}
    total = 0
    for entry in archive.infolist():
        reason = _suspicion(entry)
        if reason:
            raise _refused(entry, reason)
        if entry.is_dir():
            continue
        name = PurePosixPath(entry.filename).name
        if name in found:
            raise _refused(entry, "it is there twice")
        total += entry.file_size
        if total > most_bytes:
            raise _refused(entry, f"unpacked it is more than {most_bytes:,} bytes")
        found[name] = entry
    return found


def read_pieces(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """No more than the entry says it has; zipfile checks its checksum at the end."""
    left = entry.file_size
    try:
        with archive.open(entry) as source:
            while piece := source.read(min(PIECE, left + 1)):
                left -= len(piece)
                if left < 0:
                    raise _refused(entry, "it holds more than it says")
                yield piece
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise _refused(entry, f"it cannot be unpacked ({error})") from error
    if left:
        raise _refused(entry, "it holds less than it says")


def _suspicion(entry: zipfile.ZipInfo) -> str:
    path, kind = PurePosixPath(entry.filename), stat.S_IFMT(entry.external_attr >> 16)
    if path.is_absolute() or ".." in path.parts or "\\" in entry.filename or ":" in entry.filename:
        return "leaves the target directory"
    if not entry.filename.isprintable() or not path.name or "\x00" in entry.orig_filename:
        return "its name cannot be a file's"
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        return "it is a link or a device"
    if entry.flag_bits & IS_ENCRYPTED:
        return "it is encrypted"
    if entry.compress_type not in METHODS:
        return f"it is packed in a way ({entry.compress_type}) that is not read"
    if entry.file_size > HIGHEST_RATIO * max(entry.compress_size, 1024):
        return f"it unpacks to more than {HIGHEST_RATIO} times its size"
    return ""


def _check_end(stream: BinaryIO) -> None:
    """zipfile reads the whole table of contents at once, so its size is looked at first."""
    size = stream.seek(0, os.SEEK_END)
    begin = max(0, size - END.size - LONGEST_COMMENT - LONG_END_BYTES)
    stream.seek(begin)
    tail = stream.read(size - begin)
    stream.seek(0)
    at = tail.rfind(END_MARK)
    if at < 0 or at + END.size > len(tail):
        raise RefusedFile("refused: this is no zip archive.", "Is it complete?")
    _, _, _, _, entries, directory_bytes, _, _ = END.unpack_from(tail, at)
    if tail[max(0, at - LONG_END_BYTES) :].startswith(LONG_END_MARK):
        raise RefusedFile("refused: the archive is a zip64.", "A checkpoint has two files; zip only those.")
    if entries > MOST_ENTRIES or directory_bytes > MOST_DIRECTORY_BYTES:
        raise RefusedFile(f"refused: the archive has {entries} entries.", f"At most {MOST_ENTRIES} are read.")


def _refused(entry: zipfile.ZipInfo, reason: str) -> RefusedFile:
    return RefusedFile(f"refused entry {entry.filename[:200]!r}: {reason}.")
