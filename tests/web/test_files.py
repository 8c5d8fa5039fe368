from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect, Request

from palaestra.core.errors import NotFound
from palaestra.web.files import (
    PIECE,
    Span,
    StoredFileResponse,
    attachment,
    is_known,
    list_files,
    open_listed,
    parse_range,
)
from palaestra.web.responses import HttpError


def content_of(opened):
    with os.fdopen(opened.descriptor, "rb") as stream:
        return stream.read()


def test_files_are_listed_newest_first_with_their_sizes(tmp_path):
    for name, age in (("old.mp4", 100), ("new.mp4", 200), ("other.txt", 300)):
        (tmp_path / name).write_bytes(b"x" * age)
        os.utime(tmp_path / name, (age, age))
    assert [(file.name, file.bytes, file.changed_at) for file in list_files(tmp_path, ".mp4")] == [
        ("new.mp4", 200, 200.0),
        ("old.mp4", 100, 100.0),
    ]


def test_links_hidden_files_pipes_folders_and_unprintable_names_are_skipped(tmp_path):
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "two\nlines").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    assert [file.name for file in list_files(tmp_path)] == ["real"]
    for name in ("link", ".hidden", "folder", "two\nlines", "pipe"):
        with pytest.raises(NotFound):
            open_listed(tmp_path, name)


def test_a_listed_file_is_opened(tmp_path):
    (tmp_path / "a.txt").write_text("content")
    opened = open_listed(tmp_path, "a.txt")
    assert opened.bytes == 7
    assert content_of(opened) == b"content"


@pytest.mark.parametrize(
    "name", ["../secret", "..", ".", "", "/etc/passwd", "a.txt/../a.txt", "a.txt\x00", "A.TXT", "./a.txt"]
)
def test_only_exact_names_are_found(tmp_path, name):
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "inside" / "a.txt").write_text("x")
    with pytest.raises(NotFound):
        open_listed(tmp_path / "inside", name)


def test_a_linked_folder_is_empty(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("x")
    (tmp_path / "folder").symlink_to("elsewhere")
    assert list_files(tmp_path / "folder") == []
    with pytest.raises(NotFound):
        open_listed(tmp_path / "folder", "a")


def test_a_missing_folder_is_empty(tmp_path):
    assert list_files(tmp_path / "nowhere") == []


def test_an_unknown_name_is_refused_with_the_nearest_one(tmp_path):
    (tmp_path / "10-seed1.mp4").write_text("x")
    with pytest.raises(NotFound) as refused:
        open_listed(tmp_path, "10-seed2.mp4")
    assert refused.value.hint == "Did you mean '10-seed1.mp4'?"


def test_no_descriptor_stays_open(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        list_files(tmp_path)
        with pytest.raises(NotFound):
            open_listed(tmp_path, "pipe")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


CONTENT = os.urandom(PIECE + 1000)


def answer(tmp_path, method="GET", **headers):
    if not (tmp_path / "file").exists():
        (tmp_path / "file").write_bytes(CONTENT)
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    request = Request({"type": "http", "method": method, "headers": raw, "path": "/", "query_string": b""})
    return StoredFileResponse(open_listed(tmp_path, "file"), request, "video/mp4")


async def sent_by(response, break_after=None):
    messages = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        messages.append(message)
        if break_after is not None and len(messages) > break_after:
            raise OSError("the caller has gone")

    await response({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)
    return b"".join(message.get("body", b"") for message in messages)


def test_a_whole_file_is_sent_in_pieces(tmp_path):
    response = answer(tmp_path)
    assert response.status_code == 200
    assert response.headers["content-length"] == str(len(CONTENT))
    assert response.headers["accept-ranges"] == "bytes"
    assert asyncio.run(sent_by(response)) == CONTENT


def test_a_range_is_sent_with_its_position(tmp_path):
    response = answer(tmp_path, range="bytes=1000-300000")
    assert response.status_code == 206
    assert response.headers["content-range"] == f"bytes 1000-{min(300000, len(CONTENT) - 1)}/{len(CONTENT)}"
    assert asyncio.run(sent_by(response)) == CONTENT[1000:300001]


def test_a_range_ends_at_the_requested_byte(tmp_path):
    assert asyncio.run(sent_by(answer(tmp_path, range="bytes=1000-1999"))) == CONTENT[1000:2000]


def test_a_head_response_has_headers_and_no_content(tmp_path):
    response = answer(tmp_path, "HEAD")
    assert response.headers["content-length"] == str(len(CONTENT))
    assert asyncio.run(sent_by(response)) == b""


def test_a_known_version_is_304(tmp_path):
    etag = answer(tmp_path).headers["etag"]
    again = answer(tmp_path, if_none_match=etag)
    assert again.status_code == 304
    assert asyncio.run(sent_by(again)) == b""
    assert answer(tmp_path, if_none_match='"another"').status_code == 200


def test_the_file_is_closed_after_every_outcome(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    asyncio.run(sent_by(answer(tmp_path)))
    with pytest.raises(ClientDisconnect):
        asyncio.run(sent_by(answer(tmp_path), break_after=1))
    with pytest.raises(HttpError):
        answer(tmp_path, range="bytes=99999999-")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("name", ['a"b.html', "naïve.svg", "a;b", "日本.txt", "a\\b"])
def test_the_name_of_an_attachment_cannot_break_the_header(name):
    headers = attachment(name)
    value = headers["content-disposition"]
    assert value.startswith("attachment; ")
    assert value.isascii()
    assert value.count('"') == 2
    assert "\\" not in value
    assert "sandbox" in headers["content-security-policy"]


def test_the_headers_of_a_file_are_exact(tmp_path):
    response = answer(tmp_path, range="bytes=0-0")
    about = (tmp_path / "file").stat()
    reported = {name: response.headers[name] for name in ("etag", "cache-control", "content-type", "content-length")}
    assert reported == {
        "etag": f'"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}"',
        "cache-control": "no-cache",
        "content-type": "video/mp4",
        "content-length": "1",
    }
    assert response.headers["content-range"] == f"bytes 0-0/{len(CONTENT)}"
    assert asyncio.run(sent_by(response)) == CONTENT[:1]


def test_a_range_of_another_version_returns_the_whole_file(tmp_path):
    etag = answer(tmp_path).headers["etag"]
    assert answer(tmp_path, range="bytes=0-9", if_range=etag).status_code == 206
    assert answer(tmp_path, range="bytes=0-9", if_range='"another"').status_code == 200


def test_a_file_truncated_during_the_response_ends_there(tmp_path):
    response = answer(tmp_path)
    os.truncate(tmp_path / "file", 100)
    assert asyncio.run(sent_by(response)) == CONTENT[:100]


def test_no_piece_is_larger_than_256_kib(tmp_path):
    async def sizes():
        response = answer(tmp_path)
        found = [len(piece) async for piece in response.body_iterator]
        os.close(response._file.descriptor)
        return found

    assert asyncio.run(sizes()) == [262_144, 1000]


def test_an_attachment_has_both_names():
    assert attachment('naïve "a"_b-c.svg') == {
        "content-disposition": 'attachment; filename="na_ve__a__b-c.svg"; '
        "filename*=UTF-8''na%C3%AFve%20%22a%22_b-c.svg",
        "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    }


ETAG = '"abc"'


def span(header, size=100, if_range=None):
    return parse_range(header, size, if_range, ETAG)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-9", (0, 10)),
        ("bytes=0-", (0, 100)),
        ("bytes=90-", (90, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-1000", (0, 100)),
        ("bytes=50-1000", (50, 100)),
        ("bytes=99-99", (99, 100)),
        ("bytes=0-0", (0, 1)),
        (" bytes = 5 - 6 ", (5, 7)),
        ("bytes=0-9999999999999999999", (0, 100)),
    ],
)
def test_a_single_range_is_parsed(header, expected):
    found = span(header)
    assert (found.start, found.end) == expected


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=5-2",
        "bytes=0-1,3-4",
        "items=0-5",
        "bytes=0x1-2",
        "bytes=1-2-3",
        "bytes=-5-",
        "bytes=٣-٤",
        "bytes=99999999999999999999-",
    ],
)
def test_invalid_and_multiple_ranges_mean_the_whole_file(header):
    assert span(header) is None


@pytest.mark.parametrize(
    ("header", "size"),
    [("bytes=100-", 100), ("bytes=100-200", 100), ("bytes=-0", 100), ("bytes=0-", 0), ("bytes=-5", 0)],
)
def test_a_range_behind_the_end_is_416_with_the_size(header, size):
    with pytest.raises(HttpError) as refused:
        span(header, size)
    assert refused.value.status == 416
    assert refused.value.headers["content-range"] == f"bytes */{size}"


def test_if_range_of_another_version_means_the_whole_file():
    assert span("bytes=0-9", if_range=ETAG) == Span(0, 10)
    assert span("bytes=0-9", if_range='"other"') is None
    assert span("bytes=0-9", if_range='W/"abc"') is None  # weak tags never match here
    assert span("bytes=0-9", if_range="Mon, 16 Nov 2026 03:00:00 GMT") is None


def test_if_none_match_recognizes_a_known_version():
    assert is_known(ETAG, ETAG)
    assert is_known(f'"x", W/{ETAG}', ETAG)
    assert is_known("*", ETAG)
    assert not is_known('"x"', ETAG)
    assert not is_known(None, ETAG)


@given(st.text(), st.integers(0, 1000))
def test_any_range_header_gives_a_span_inside_the_file(header, size):
    try:
        found = parse_range(f"bytes={header}", size, None, ETAG)
    except HttpError:
        return  # its status is looked at elsewhere
    assert found is None or 0 <= found.start < found.end <= size


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 100))
def test_a_span_is_what_slicing_gives(first, last, size):
    content = bytes(range(size))
    expected = content[first : last + 1]
    try:
        found = parse_range(f"bytes={first}-{last}", size, None, ETAG)
    except HttpError:
        assert expected == b""
        assert first <= last
        return
    assert content[found.start : found.end] == expected if found else first > last
