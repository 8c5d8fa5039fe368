from __future__ import annotations

import asyncio
import io
import os
import random
import stat
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect, Request

from palaestra.checkpoints import sidecar
from palaestra.checkpoints.durable import rewrite_sidecar
from palaestra.checkpoints.files import model_name, sidecar_name
from palaestra.checkpoints.retention import reserve_if_unused
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile
from palaestra.web.resources import checkpoint_zip
from palaestra.web.resources.checkpoint_zip import (
    CheckpointArchive,
    open_archive,
    read_pieces,
    validate_entries,
    without_trainer_state,
)


def a_request(method="GET"):
    return Request({"type": "http", "method": method, "headers": [], "path": "/", "query_string": b""})


async def sent_by(reply, while_sending=lambda: None, breaks=False):
    pieces = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        pieces.append(message.get("body", b""))
        while_sending()
        if breaks:
            raise OSError("the caller has gone")

    await reply({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)
    return b"".join(pieces)


@pytest.fixture
def directory(make_run, save_checkpoint):
    directory = make_run("first")
    save_checkpoint(directory, 10)
    return directory


def test_the_sidecar_in_a_download_describes_only_the_weights(directory, save_checkpoint):
    before = save_checkpoint(directory, 20)
    state = {"trainer_state_0020.pt": {"size": 1, "sha256": "0" * 64}}
    described = without_trainer_state(rewrite_sidecar(directory.checkpoints, _with(before, state)))
    assert set(described.files) == {model_name(20)}


def _with(checkpoint, files):
    return replace(checkpoint, files={**checkpoint.files, **files})


def test_the_sidecar_in_a_download_is_valid(directory):
    content = asyncio.run(sent_by(CheckpointArchive(directory, 10, a_request())))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        inside = sidecar.decode(archive.read(sidecar_name(10)), "inside")
        assert sidecar.digest(archive.read(model_name(10))) == inside.files[model_name(10)]


def test_retention_keeps_a_checkpoint_during_its_download(directory):
    observed = []

    def refresh_changed():
        with reserve_if_unused(directory.checkpoints, 10) as is_free:
            observed.append(is_free)

    asyncio.run(sent_by(CheckpointArchive(directory, 10, a_request()), refresh_changed))
    assert observed
    assert not any(observed)
    with reserve_if_unused(directory.checkpoints, 10) as is_free:
        assert is_free


def test_corrupt_weights_are_detected_before_the_first_byte(directory):
    path = directory.checkpoints / model_name(10)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match="sha256 differs"):
        CheckpointArchive(directory, 10, a_request())


def test_no_file_stays_open_after_a_disconnect_or_an_error(directory):
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(ClientDisconnect):
        asyncio.run(sent_by(CheckpointArchive(directory, 10, a_request()), breaks=True))
    with pytest.raises(NotFound):
        CheckpointArchive(directory, 99, a_request())
    os.truncate(directory.checkpoints / model_name(10), 3)
    with pytest.raises(DamagedFile):
        CheckpointArchive(directory, 10, a_request())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_asking_for_the_head_sends_nothing(directory):
    assert asyncio.run(sent_by(CheckpointArchive(directory, 10, a_request("HEAD")))) == b""


def packed(*entries, method=zipfile.ZIP_DEFLATED):
    """Entries are (name or ZipInfo, content)."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    stream.seek(0)
    return stream


def entries_of(stream, most_bytes=1 << 20):
    with open_archive(stream) as archive:
        return validate_entries(archive, most_bytes)


def test_entries_are_returned_by_name_without_folders():
    assert list(entries_of(packed(("model_0010.yaml", "a"), ("checkpoints/", ""), ("checkpoints/b", "b")))) == [
        "model_0010.yaml",
        "b",
    ]


@pytest.mark.fault("W9")
@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "..\\x", "C:\\x", "C:x", "a/..", "\\\\host\\x"])
def test_a_path_outside_of_the_archive_is_refused(name):
    with pytest.raises(RefusedFile, match="leaves the target directory") as refused:
        entries_of(packed((name, "x")))
    assert repr(name) in refused.value.message


def with_mode(name, mode):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    return entry


@pytest.mark.fault("W9")
@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices_are_refused(kind):
    with pytest.raises(RefusedFile, match="a link or a device"):
        entries_of(packed((with_mode("x", kind | 0o777), "/etc/passwd")))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_duplicate_name_is_refused():
    with pytest.raises(RefusedFile, match="duplicate name"):
        entries_of(packed(("a", "1"), ("a", "2")))
    with pytest.raises(RefusedFile, match="duplicate name"):
        entries_of(packed(("x/a", "1"), ("y/a", "2")))


def test_a_zip_bomb_is_refused_before_it_is_unpacked():
    with pytest.raises(RefusedFile, match="100 times"):
        entries_of(packed(("zeros", b"\0" * 10_000_000)), most_bytes=1 << 30)
    with pytest.raises(RefusedFile, match="more than 1,000 bytes"):
        entries_of(packed(("zeros", b"\0" * 1001), method=zipfile.ZIP_STORED), most_bytes=1000)


def test_too_many_entries_are_refused_before_the_directory_is_read():
    assert len(entries_of(packed(*((f"f{number}", "") for number in range(100))))) == 100
    many = packed(*((f"f{number}", "") for number in range(101)))
    with pytest.raises(RefusedFile, match="101 entries"):
        open_archive(many)


def test_a_huge_central_directory_is_not_read():
    content = bytearray(packed(("a", "1")).getvalue())
    at = content.rfind(b"PK\x05\x06")
    for claimed, reason in ((1 << 20, "not a valid zip archive"), ((1 << 20) + 1, "1 entries"), (1 << 30, "1 entries")):
        struct.pack_into("<L", content, at + 12, claimed)
        with pytest.raises(RefusedFile, match=reason):
            open_archive(io.BytesIO(content))


def test_encrypted_entries_and_unknown_compression_are_refused():
    for offset, value, arguments in ((8, 1, "encrypted"), (10, 99, "unsupported compression")):
        content = bytearray(packed(("a", "1"), method=zipfile.ZIP_STORED).getvalue())
        struct.pack_into("<H", content, content.find(b"PK\x01\x02") + offset, value)
        with pytest.raises(RefusedFile, match=arguments):
            entries_of(io.BytesIO(content))


def test_entries_are_read_as_written():
    content = random.Random(1).randbytes(3_000_000)
    with open_archive(packed(("a", content))) as archive:
        entry = validate_entries(archive, 1 << 30)["a"]
        assert b"".join(read_pieces(archive, entry)) == content


def test_a_wrong_checksum_is_refused():
    content = bytearray(packed(("a", "content"), method=zipfile.ZIP_STORED).getvalue())
    content[content.find(b"content")] ^= 1
    with open_archive(io.BytesIO(content)) as archive, pytest.raises(RefusedFile, match="unpacking failed"):
        list(read_pieces(archive, validate_entries(archive, 1 << 20)["a"]))


def test_a_wrong_size_is_refused():
    content = bytearray(packed(("a", "x" * 1000), method=zipfile.ZIP_DEFLATED).getvalue())
    for mark, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        struct.pack_into("<L", content, content.find(mark) + offset, 500)
    with open_archive(io.BytesIO(content)) as archive, pytest.raises(RefusedFile):
        list(read_pieces(archive, validate_entries(archive, 1 << 20)["a"]))


def test_an_entry_smaller_than_declared_is_refused():
    content = bytearray(packed(("a", "x" * 1000)).getvalue())
    for mark, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        struct.pack_into("<L", content, content.find(mark) + offset, 1001)
    with open_archive(io.BytesIO(content)) as archive, pytest.raises(RefusedFile, match="smaller than declared"):
        list(read_pieces(archive, validate_entries(archive, 1 << 20)["a"]))


def test_limits_are_inclusive():
    """A small file may be packed well: what counts is a kilobyte at least."""
    assert list(entries_of(packed(("zeros", bytes(102_400))))) == ["zeros"]
    with pytest.raises(RefusedFile, match="100 times"):
        entries_of(packed(("zeros", bytes(102_401))))
    two = packed(("a", bytes(400)), ("b", bytes(600)), method=zipfile.ZIP_STORED)
    assert list(entries_of(two, most_bytes=1000)) == ["a", "b"]
    with pytest.raises(RefusedFile, match="entry 'b': the archive unpacks to more than 999 bytes"):
        entries_of(two, most_bytes=999)


def test_a_comment_of_any_length_is_ignored():
    stream = packed(("a", "1"))
    with zipfile.ZipFile(stream, "a") as archive:
        archive.comment = b"c" * 65_535
    assert list(entries_of(stream)) == ["a"]


def test_a_zip64_is_refused():
    content = packed(("a", "1")).getvalue()
    at = content.rfind(b"PK\x05\x06")
    with pytest.raises(RefusedFile, match="zip64"):
        open_archive(io.BytesIO(content[:at] + b"PK\x06\x07" + bytes(16) + content[at:]))


@pytest.mark.parametrize(("flags", "is_refused"), [(0x800, False), (0x8, False), (0x1, True), (0x809, True)])
def test_only_the_encryption_flag_is_refused(flags, is_refused):
    content = bytearray(packed(("a", "1"), method=zipfile.ZIP_STORED).getvalue())
    struct.pack_into("<H", content, content.find(b"PK\x01\x02") + 8, flags)
    if is_refused:
        with pytest.raises(RefusedFile, match="encrypted"):
            entries_of(io.BytesIO(content))
    else:
        assert list(entries_of(io.BytesIO(content))) == ["a"]


def test_an_invalid_name_is_refused_and_shown_up_to_200_characters():
    with pytest.raises(RefusedFile, match="invalid file name"):
        entries_of(packed(("a\nb", "1")))
    with pytest.raises(RefusedFile) as refused:
        entries_of(packed(("/" + "a" * 300, "1")))
    assert f"'/{'a' * 199}'" in refused.value.message


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip", b"PK\x05\x06" + b"\xff" * 10, b"\0" * 100_000])
def test_other_files_than_zips_are_refused(content):
    with pytest.raises(RefusedFile):
        open_archive(io.BytesIO(content))


@given(st.data())
def test_corrupt_archives_raise_only_refused_file(data):
    content = bytearray(packed(("model_0010.yaml", "abc" * 50), ("b", "x")).getvalue())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        with open_archive(io.BytesIO(content)) as archive:
            for entry in validate_entries(archive, 1 << 20).values():
                list(read_pieces(archive, entry))
    except RefusedFile:
        pass


def test_content_is_read_in_pieces_of_1_mib_up_to_the_declared_size():
    entry = SimpleNamespace(filename="a", file_size=(1 << 20) + 5)
    whole = SimpleNamespace(open=lambda _: io.BytesIO(bytes((1 << 20) + 5)))
    assert [len(piece) for piece in read_pieces(whole, entry)] == [1_048_576, 5]
    more = SimpleNamespace(open=lambda _: io.BytesIO(bytes((1 << 20) + 6)))
    with pytest.raises(RefusedFile, match="larger than declared"):
        list(read_pieces(more, entry))


def test_a_name_with_nul_is_refused_and_a_valid_one_accepted():
    assert checkpoint_zip._find_problem(zipfile.ZipInfo("a\x00b")) == "invalid file name"
    assert checkpoint_zip._find_problem(zipfile.ZipInfo("a")) == ""


def test_the_maximum_comment_is_that_of_the_format():
    assert checkpoint_zip.MAX_COMMENT_BYTES == 65_536
