from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.runs.files import append_line
from palaestra.runs.journal import Journal
from palaestra.web.resources.logs import INCOMPLETE_CHARACTER, _whole_characters


@pytest.fixture
def directory(make_run):
    return make_run("first")


def log(client, **query):
    reply = client.get("/api/runs/first/log", params={name.strip("_"): value for name, value in query.items()})
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_tail_returns_the_last_lines(client, directory):
    directory.output_file().write_text("".join(f"line {number}\n" for number in range(1000)))
    reply = log(client, tail=3)
    assert reply["text"] == "line 997\nline 998\nline 999\n"
    assert reply["next"] == reply["size"] == directory.output_file().stat().st_size
    assert reply["from"] == reply["size"] - len(reply["text"])


def test_an_unfinished_line_counts_as_one(client, directory):
    directory.output_file().write_text("a\nb\nc")
    assert log(client, tail=2)["text"] == "b\nc"
    assert log(client, tail=100)["text"] == "a\nb\nc"


def test_reading_from_next_returns_every_byte_once(client, directory):
    text = "naïve → 日本 😀\n" * 300
    directory.output_file().write_text(text)
    gathered, position = "", 0
    while True:
        reply = log(client, **{"from": position, "limit": 17})
        gathered += reply["text"]
        position = reply["next"]
        if position == reply["size"]:
            break
    assert gathered == text


def test_escape_codes_are_stored_and_invalid_utf8_is_replaced(client, directory):
    directory.output_file().write_bytes(b"\x1b[31mred\x1b[0m \xff\xfe end\x00\n")
    assert log(client)["text"] == "\x1b[31mred\x1b[0m \ufffd\ufffd end\x00\n"


def test_a_partial_character_is_left_for_the_next_piece_unless_alone(client, directory):
    directory.output_file().write_bytes("ab€".encode()[:-1])
    reply = log(client)
    assert (reply["text"], reply["next"], reply["size"]) == ("ab", 2, 4)
    with directory.output_file().open("ab") as stream:
        stream.write("€".encode()[-1:])
    assert log(client, **{"from": reply["next"]})["text"] == "€"
    directory.output_file().write_bytes(b"ab\xe2")
    assert log(client, **{"from": 2})["text"] == "\ufffd"


@given(st.text(max_size=40), st.integers(0, 3))
def test_no_cut_loses_a_character(text, cut):
    content = text.encode("utf-8", "replace")
    whole = _whole_characters(content[: len(content) - cut])
    assert content.startswith(whole)
    if INCOMPLETE_CHARACTER.fullmatch(content[: len(content) - cut]) is None:
        whole.decode("utf-8")


def test_a_truncated_log_is_read_from_its_start(client, directory):
    directory.output_file().write_text("new\n")
    reply = log(client, **{"from": 5000})
    assert (reply["from"], reply["text"]) == (0, "new\n")


def test_a_long_line_loses_its_start(client, directory):
    directory.output_file().write_bytes(b"first\n" + "é".encode() * 100_000)
    reply = log(client, tail=1, limit=1001)
    assert reply["text"] == "é" * 500
    assert reply["next"] == reply["size"]


def test_streams_are_selected_by_name_and_worker_falls_back_to_the_first_rank(client, directory):
    directory.log_file(0).write_text("rank zero\n")
    directory.log_file(1).write_text("rank one\n")
    reply = log(client)
    assert (reply["text"], reply["streams"]) == ("rank zero\n", ["rank_0", "rank_1"])
    assert log(client, stream="rank_1")["text"] == "rank one\n"
    directory.output_file().write_text("")
    assert log(client)["stream"] == "rank_0"
    directory.output_file().write_text("printed\n")
    assert (log(client)["text"], log(client)["stream"]) == ("printed\n", "output")
    missing = client.get("/api/runs/first/log?stream=rank_7")
    assert missing.status_code == 404
    assert missing.json()["error"]["hint"] in {"Did you mean 'rank_1'?", "Did you mean 'rank_0'?"}


def test_a_run_without_a_log_has_an_empty_one(client, directory):
    assert log(client) == {"text": "", "from": 0, "next": 0, "size": 0, "stream": "worker", "streams": []}


@pytest.mark.parametrize("stream", ["../status", "/etc/passwd", "output.log", "rank_0\x1b", "."])
def test_a_stream_is_never_used_as_a_path(client, directory, stream):
    directory.output_file().write_text("x")
    assert client.get("/api/runs/first/log", params={"stream": stream}).status_code == 404


def test_journal_entries_are_numbered_and_continue_after_the_last_response(client, make_run):
    directory = make_run("first")
    journal = Journal(directory)
    for epoch in range(3):
        journal.record("checkpoint.scored", epoch=epoch, score=1.0, episodes=2)
    first = client.get("/api/runs/first/journal?limit=2").json()
    assert [entry["event"] for entry in first["entries"]] == ["run.created", "checkpoint.scored"]
    assert [entry["number"] for entry in first["entries"]] == [1, 2]
    rest = client.get(f"/api/runs/first/journal?after={first['next']}").json()
    assert [entry["data"]["epoch"] for entry in rest["entries"]] == [1, 2]
    assert rest["next"] == rest["total"] == 4
    assert client.get(f"/api/runs/first/journal?after={rest['next']}").json()["entries"] == []


def test_a_torn_journal_line_is_skipped_and_infinity_is_text(client, make_run):
    directory = make_run("first")
    append_line(directory.journal_file, '{"at": 1, "event": "torn')
    Journal(directory).record("checkpoint.scored", epoch=1, score=float("inf"), episodes=2)
    entries = client.get("/api/runs/first/journal").json()["entries"]
    assert entries[-1]["data"]["score"] == "Infinity"
    assert len(entries) == 2


def test_after_the_end_the_journal_is_empty(client, make_run):
    make_run("first")
    assert client.get("/api/runs/first/journal?after=1000").json() == {"entries": [], "next": 1, "total": 1}
    assert client.get("/api/runs/first/journal?after=-1").status_code == 422
