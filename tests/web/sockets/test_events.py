"""The events socket over a real server: who is told what, who is not kept waiting, who is let in."""

import asyncio
import contextlib
import json
import logging
import socket as socket_module
import time

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from palaestra.core.errors import NotFound
from palaestra.core.metrics_logger import Sample
from palaestra.core.run import RunRequest
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.web import server
from palaestra.web.sockets import events
from palaestra.web.sockets.events import LOG_BYTES, FollowBody, RunFollower, _incomplete_bytes


def collect(follower, wanted, *steps):
    """Follow, then after each step what was told."""

    async def play():
        await follower.follow(wanted)
        reports = []
        for step in (lambda: None, *steps):
            step()
            reports.append(await follower.collect())
        return reports

    return asyncio.run(play())


def write_metrics(directory, values):
    writer = MetricsWriter(directory.metrics_file)
    for step, value in values.items():
        writer.write(Sample(step=step, metrics={"x": value}, timings={}, at=float(step)))
    writer.close()


def texts(messages):
    return [message["text"] for message in messages]


def test_new_log_output_is_sent(context, make_run):
    directory = make_run("first")
    output = directory.output_file()
    output.write_text("one\n")

    def grow(text):
        def step():
            with output.open("a") as stream:
                stream.write(text)

        return step

    reports = collect(RunFollower(context), FollowBody(run="first", log=True), grow("two\n"), lambda: None, grow("ä"))
    assert [texts(messages) for messages in reports] == [["one\n"], ["two\n"], [], ["ä"]]
    assert reports[1][0]["from"] == reports[0][0]["next"] == 4


def test_a_long_log_starts_with_its_end(context, make_run):
    make_run("first").output_file().write_bytes(b"x" * LOG_BYTES + b"y" * LOG_BYTES)
    ((message,),) = collect(RunFollower(context), FollowBody(run="first", log=True))
    assert (message["text"], message["from"]) == ("y" * LOG_BYTES, LOG_BYTES)


def test_a_truncated_log_is_sent_from_its_new_start(context, make_run):
    output = make_run("first").output_file()
    output.write_text("a long story\n")
    reports = collect(RunFollower(context), FollowBody(run="first", log=True), lambda: output.write_text("new\n"))
    assert texts(reports[1]) == ["new\n"]


def test_a_partial_character_is_sent_with_the_next_piece(context, make_run):
    output = make_run("first").output_file()
    output.write_bytes("ab€".encode()[:-1])
    reports = collect(
        RunFollower(context), FollowBody(run="first", log=True), lambda: output.write_bytes("ab€".encode())
    )
    assert [texts(messages) for messages in reports] == [["ab"], ["€"]]


@pytest.mark.parametrize("letter", ["a", "ä", "€", "😀"])
def test_incomplete_bytes_at_the_end_are_counted(letter):
    whole = letter.encode()
    assert _incomplete_bytes(b"x" + whole) == 0
    assert [_incomplete_bytes(b"x" + whole[:end]) for end in range(1, len(whole))] == list(range(1, len(whole)))


def test_a_run_without_metrics_or_log_sends_nothing(context, make_run):
    make_run("first")
    assert collect(RunFollower(context), FollowBody(run="first", log=True, metrics=True)) == [[]]


def test_metrics_are_sent_after_the_newest_sample(context, make_run):
    directory = make_run("first")
    write_metrics(directory, {1: 0.5})
    reports = collect(
        RunFollower(context), FollowBody(run="first", metrics=True), lambda: write_metrics(directory, {2: 0.75})
    )
    assert reports[0] == []
    ((message,)) = reports[1]
    assert [(point["step"], point["name"], point["value"]) for point in message["points"]] == [(2, "x", 0.75)]


def test_following_no_run_sends_nothing_and_an_unknown_run_is_not_found(context, make_run):
    make_run("first")
    follower = RunFollower(context)
    assert collect(follower, None) == [[]]
    with pytest.raises(NotFound):
        collect(follower, FollowBody(run="nobody", log=True))


TIMEOUT_SECONDS = 60.0  # far beyond what anything here takes, also on a busy machine


@pytest.fixture
def watch(live):
    with contextlib.ExitStack() as stack:

        def open_socket(query="", **settings):
            address = f"ws://127.0.0.1:{live.port}/api/events{query}"
            opening = connect(address, additional_headers=live.bearer, compression=None, proxy=None, **settings)
            return stack.enter_context(opening)

        yield open_socket


def next_of(socket, kind):
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        message = json.loads(socket.recv(timeout=max(0.01, deadline - time.monotonic())))
        if message["type"] == kind:
            return message


def submit(live, **changes):
    return live.context.daemon.submit(RunRequest("nap", "", {"seconds": 60}, **changes))


def test_the_first_messages_are_hello_and_system(watch, live):
    socket = watch()
    hello = next_of(socket, "hello")
    assert (hello["boot"], hello["missed"]) == (live.context.run_facts.boot, False)
    assert next_of(socket, "system")["slots"]["cpus"] == 1


def test_a_run_is_reported_from_the_queue_to_its_removal(watch, live):
    socket = watch()
    next_of(socket, "hello")
    entry = submit(live, name="one")
    observed = [next_of(socket, "run")]
    while observed[-1]["run"]["state"] != "running":
        observed.append(next_of(socket, "run"))
    live.context.daemon.stop(entry.id, 1.0)
    while observed[-1]["run"]["state"] in {"running", "stopping"}:
        observed.append(next_of(socket, "run"))
    live.context.daemon.remove(entry.id)
    assert next_of(socket, "removed")["run"]["id"] == entry.id
    assert {message["run"]["name"] for message in observed} == {"one"}
    assert [message["sequence"] for message in observed] == sorted(message["sequence"] for message in observed)


def test_a_reconnecting_viewer_gets_missed_events(watch, live):
    event_bus = live.context.daemon.events
    before = event_bus.sequence
    entry = submit(live)
    socket = watch(f"?after={before}&boot={live.context.run_facts.boot}")
    assert next_of(socket, "hello")["missed"] is False
    assert next_of(socket, "run")["run"]["id"] == entry.id


@pytest.mark.parametrize("query", ["?after=99999", "?after=0&boot=another"])
def test_a_viewer_of_another_daemon_must_list_again(watch, live, query):
    submit(live)
    assert next_of(watch(query), "hello")["missed"] is True


@pytest.mark.parametrize("query", ["?after=x", "?after=-1", "?later=1", "?after=1&after=2"])
def test_an_invalid_query_closes_the_socket_with_an_error(watch, query):
    socket = watch(query)
    assert next_of(socket, "error")["error"]["fields"]
    with pytest.raises(ConnectionClosed) as closed:
        socket.recv(timeout=TIMEOUT_SECONDS)
    assert closed.value.rcvd.code == 1007


def test_a_viewer_follows_one_run_s_log(watch, live):
    entry = submit(live)
    socket = watch()
    socket.send(json.dumps({"follow": {"run": entry.id, "log": True, "metrics": True}}))
    assert next_of(socket, "log")["text"].startswith("started")
    socket.send(json.dumps({"follow": None}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "{}",
        '{"follow": 5}',
        '{"follow": {"run": "nobody"}}',
        '{"follow": {"run": "../x", "log": true}}',
        '{"follow": {"run": NaN}}',
        '{"other": 1}',
    ],
)
def test_an_invalid_message_gets_an_error_and_the_socket_stays_open(watch, text):
    socket = watch()
    socket.send(text)
    assert next_of(socket, "error")["error"]["message"]
    socket.send('{"follow": null}')
    assert socket.ping().wait(TIMEOUT_SECONDS)


@pytest.mark.fault("W4")
def test_binary_and_too_large_messages_close_the_socket(watch, live, caplog):
    giant = watch()
    with pytest.raises(ConnectionClosed) as closed:
        giant.send("x" * (64 * 1024 + 1))
        while True:
            giant.recv(timeout=TIMEOUT_SECONDS)
    assert closed.value.rcvd.code == 1009
    strange = watch()
    strange.send(b"\x00\x01")
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            strange.recv(timeout=TIMEOUT_SECONDS)
    assert closed.value.rcvd.code == 1003
    assert "Send JSON as text." in closed.value.rcvd.reason
    assert next_of(watch(), "hello")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def shake_hands(live):
    """A socket of our own, after the handshake, with nothing of the answer left to read but frames."""
    raw = socket_module.create_connection(("127.0.0.1", live.port), timeout=TIMEOUT_SECONDS)
    head = live.head(
        path="/api/events",
        connection="Upgrade",
        upgrade="websocket",
        sec_websocket_version=13,
        sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ==",
        sec_websocket_extensions="permessage-deflate",
    )
    raw.sendall(head)
    stream = raw.makefile("rb")
    assert b" 101 " in stream.readline()
    while stream.readline() != b"\r\n":
        pass
    return raw, stream


def close_code(stream):
    """Reads frames until the one that closes."""
    while True:
        first, length = stream.read(2)
        size = length if length < 126 else int.from_bytes(stream.read(2 if length == 126 else 8), "big")
        content = stream.read(size)
        if first & 0x0F == 0x08:
            return int.from_bytes(content[:2], "big")


@pytest.mark.fault("W4")
@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x81\x02hi", 1002),  # not masked
        (b"\xc1\x82\0\0\0\0xx", 1002),  # compressed, which was not agreed upon: no bomb goes off
        (b"\x83\x80\0\0\0\0", 1002),  # no such kind
        (b"\x09\x80\0\0\0\0", 1002),  # a ping in pieces
        (b"\x81\x81\0\0\0\0\xff", 1007),  # no UTF-8
        (b"\x81\xff\0\0\0\0\x40\0\0\0\0\0\0\0", 1009),  # a gigabyte is announced
    ],
)
def test_an_invalid_frame_closes_the_socket_with_its_code(live, frame, code):
    raw, stream = shake_hands(live)
    with raw, stream:
        raw.sendall(frame)
        assert close_code(stream) == code
    assert httpx2.get(f"{live.url}/api/system", headers=live.bearer, timeout=TIMEOUT_SECONDS).status_code == 200


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(server, "PING_SECONDS", 0.2)


@pytest.mark.fault("W4")
@pytest.mark.usefixtures("impatient")
def test_a_viewer_without_pong_is_disconnected(live):
    raw, stream = shake_hands(live)
    with raw, stream:
        assert close_code(stream) == 1011


@pytest.mark.fault("W4")
def test_compression_is_not_negotiated(live):
    address = f"ws://127.0.0.1:{live.port}/api/events"
    with connect(address, additional_headers=live.bearer, compression="deflate", proxy=None) as socket:
        assert socket.response.headers.get("sec-websocket-extensions") is None


@pytest.mark.fault("W6")
def test_the_number_of_viewers_is_limited(watch, live, monkeypatch):
    monkeypatch.setattr(events, "MAX_VIEWERS", 2)
    first, _second = watch(), watch()
    next_of(first, "hello")
    with pytest.raises(ConnectionClosed) as closed:
        watch().recv(timeout=TIMEOUT_SECONDS)
    assert closed.value.rcvd.code == 1013
    first.close()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(live.context.services[events.SERVICE]) > 1:
        assert time.monotonic() < deadline
    assert next_of(watch(), "hello")


@pytest.mark.fault("W5")
def test_a_slow_viewer_delays_no_other_and_stores_one_event_per_run(watch, live):
    submit(live)
    daemon = live.context.daemon
    watch(max_queue=1, close_timeout=0.1)  # it is never read from
    quick = watch()
    next_of(quick, "hello")
    entry = daemon.runs()[0]
    for _ in range(20_000):
        daemon.events.publish("changed", entry.id, entry)
    while next_of(quick, "run")["sequence"] < daemon.events.sequence:
        pass


def test_disconnected_viewers_leave_no_state(watch, live):
    daemon = live.context.daemon
    before = len(daemon.events._subscribers)
    sockets = [watch() for _ in range(5)]
    for socket in sockets:
        next_of(socket, "hello")
    assert len(daemon.events._subscribers) == before + 5
    for socket in sockets:
        socket.close()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(daemon.events._subscribers) > before:
        assert time.monotonic() < deadline
