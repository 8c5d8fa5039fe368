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
