from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from starlette.requests import ClientDisconnect, Request

from palaestra.web.errors import Refusal
from palaestra.web.file_answer import PIECE, FileAnswer, attachment
from palaestra.web.listing import open_listed

CONTENT = os.urandom(PIECE + 1000)


def answer(tmp_path, method="GET", **headers):
    if not (tmp_path / "file").exists():
        (tmp_path / "file").write_bytes(CONTENT)
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    request = Request({"type": "http", "method": method, "headers": raw, "path": "/", "query_string": b""})
    return FileAnswer(open_listed(tmp_path, "file"), request, "video/mp4")


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


def test_a_range_is_those_bytes_and_says_where_they_belong(tmp_path):
    response = answer(tmp_path, range="bytes=1000-300000")
    assert response.status_code == 206
    assert response.headers["content-range"] == f"bytes 1000-{min(300000, len(CONTENT) - 1)}/{len(CONTENT)}"
    assert asyncio.run(sent_by(response)) == CONTENT[1000:300001]


def test_a_range_in_the_middle_ends_where_it_was_asked_to(tmp_path):
    assert asyncio.run(sent_by(answer(tmp_path, range="bytes=1000-1999"))) == CONTENT[1000:2000]


def test_a_head_has_the_headers_and_no_content(tmp_path):
    response = answer(tmp_path, "HEAD")
    assert response.headers["content-length"] == str(len(CONTENT))
    assert asyncio.run(sent_by(response)) == b""


def test_who_has_it_already_gets_nothing(tmp_path):
    etag = answer(tmp_path).headers["etag"]
    again = answer(tmp_path, if_none_match=etag)
    assert again.status_code == 304
    assert asyncio.run(sent_by(again)) == b""
    assert answer(tmp_path, if_none_match='"another"').status_code == 200


def test_the_file_is_closed_whatever_becomes_of_the_answer(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    asyncio.run(sent_by(answer(tmp_path)))
    with pytest.raises(ClientDisconnect):
        asyncio.run(sent_by(answer(tmp_path), break_after=1))
    with pytest.raises(Refusal):
        answer(tmp_path, range="bytes=99999999-")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("name", ['a"b.html', "naïve.svg", "a;b", "日本.txt", "a\\b"])
def test_an_attachment_is_saved_under_a_name_that_cannot_break_out_of_the_header(name):
    headers = attachment(name)
    value = headers["content-disposition"]
    assert value.startswith("attachment; ")
    assert value.isascii()
    assert value.count('"') == 2
    assert "\\" not in value
    assert "sandbox" in headers["content-security-policy"]


def test_what_is_said_of_a_file_is_exact(tmp_path):
    response = answer(tmp_path, range="bytes=0-0")
    about = (tmp_path / "file").stat()
    said = {name: response.headers[name] for name in ("etag", "cache-control", "content-type", "content-length")}
    assert said == {
        "etag": f'"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}"',
        "cache-control": "no-cache",
        "content-type": "video/mp4",
        "content-length": "1",
    }
    assert response.headers["content-range"] == f"bytes 0-0/{len(CONTENT)}"
    assert asyncio.run(sent_by(response)) == CONTENT[:1]


def test_a_range_of_another_version_is_not_answered_in_part(tmp_path):
    etag = answer(tmp_path).headers["etag"]
    assert answer(tmp_path, range="bytes=0-9", if_range=etag).status_code == 206
    assert answer(tmp_path, range="bytes=0-9", if_range='"another"').status_code == 200


def test_a_file_that_is_cut_short_while_it_is_sent_ends_there(tmp_path):
    response = answer(tmp_path)
    os.truncate(tmp_path / "file", 100)
    assert asyncio.run(sent_by(response)) == CONTENT[:100]


def test_no_piece_is_larger_than_a_quarter_of_a_megabyte(tmp_path):
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
