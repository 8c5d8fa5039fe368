from __future__ import annotations

import asyncio
import json
import os
import textwrap

import psutil
import pytest
from starlette.websockets import WebSocketDisconnect

from palaestra.rendering.frame_buffer import VARIABLE
from palaestra.runner.match.plan import MatchPlan
from palaestra.web.responses import HttpError
from palaestra.web.sockets import match
from palaestra.web.sockets.match import MatchViewerMessage, resolve_targets, running_match

SEATS = [{"player": "first:3"}]
PLAYER = """
import json, os, sys
from time import monotonic
import numpy as np
from palaestra.rendering.frame_format import Heartbeat
from palaestra.rendering.frame_buffer import FrameBufferOwner
from palaestra.rendering.frame_format import Numbers
from palaestra.rendering.frame_buffer import frame_buffer_path
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.runs.processes import process_started_at

def tell(word):
    print(json.dumps(word), flush=True)

asked = json.loads(sys.stdin.readline())
path = frame_buffer_path(asked["frame_buffer"], "match")
with FrameBufferOwner(path, 1, 300, process_started_at(os.getpid())) as owner:
    writer = FrameWriter(owner.descriptor, owner.about)
    tell({"ready": {"plan": asked["plan"]}})
    for step, line in enumerate(sys.stdin):
        writer.write_heartbeat(Heartbeat(monotonic(), step, 0, 0, 0.0, 0.0))
        writer.write(0, np.full((10, 10, 3), 200, np.uint8), Numbers(step, 1.0, 2.0, 3))
        tell({"heard": json.loads(line)})
    writer.close()
"""


@pytest.fixture(autouse=True)
def match_program(monkeypatch, tmp_path):
    (tmp_path / "lanes").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lanes"))

    def use(text):
        monkeypatch.setattr(match, "PROGRAM", ("-c", textwrap.dedent(text)))

    use(PLAYER)
    return use


def connect(client):
    return client.websocket_connect("ws://127.0.0.1:7878/api/match")


def next_of(socket, kind):
    while True:
        message = socket.receive()
        if kind is bytes and message.get("bytes"):
            return message["bytes"]
        if message["type"] == "websocket.close":
            raise WebSocketDisconnect(message["code"], message.get("reason"))
        if kind is not bytes and message.get("text") and kind in json.loads(message["text"]):
            return json.loads(message["text"])[kind]


def test_a_match_is_started_and_watched_over_one_socket(client, make_run, tmp_path):
    directory = make_run("first")
    with connect(client) as socket:
        socket.send_json({"seats": SEATS, "pace": 0})
        assert next_of(socket, "state") == "unavailable"
        plan = next_of(socket, "ready")["plan"]
        assert plan["seats"][0]["player"] == f"{directory.id}:3"
        socket.send_json({"fps": 30, "side": 64, "slots": None})
        socket.send_json({"action": 4, "ack": 0})
        assert next_of(socket, "heard") == {"action": 4}
        frame = next_of(socket, bytes)
        assert frame[:2] == b"PF"
        socket.send_json({"ack": 1})
        hud = next_of(socket, "hud")
        assert (hud["role"], hud["slots"]) == ("match", 1)
    assert list((tmp_path / "lanes").iterdir()) == []


@pytest.mark.parametrize(
    "plan",
    [
        "{",
        "[]",
        '{"seats": []}',
        '{"seats": [{"player": "random"}]}',
        '{"seats": [{"player": "first:3", "colour": 1}]}',
        '{"seats": [{"player": "/etc/passwd"}]}',
        '{"seats": [{"player": "../first:3"}]}',
        '{"seats": [{"player": "first:3.yaml"}]}',
        '{"seats": [{"player": "nobody:3"}]}',
        '{"seats": [{"player": "person", "others": "nobody:best"}]}',
    ],
)
def test_an_invalid_plan_closes_the_socket_with_the_reason(client, make_run, plan):
    make_run("first")
    with connect(client) as socket:
        socket.send_text(plan)
        with pytest.raises(WebSocketDisconnect) as ended:
            next_of(socket, "never")
        assert ended.value.code == 1008
        assert ended.value.reason


def test_a_binary_plan_closes_the_socket(client):
    with connect(client) as socket:
        socket.send_bytes(b"{}")
        with pytest.raises(WebSocketDisconnect) as ended:
            next_of(socket, "never")
        assert ended.value.code == 1008


def test_the_error_of_a_match_reaches_the_viewer(client, make_run, match_program):
    make_run("first")
    match_program('print(\'{"error": {"message": "This run has no checkpoint.", "hint": "Wait."}}\')')
    with connect(client) as socket:
        socket.send_json({"seats": SEATS})
        with pytest.raises(WebSocketDisconnect) as ended:
            next_of(socket, "never")
        assert (ended.value.code, ended.value.reason) == (1008, "This run has no checkpoint. Wait.")


def test_concurrent_matches_are_limited_until_one_ends(client, make_run, monkeypatch):
    make_run("first")
    monkeypatch.setattr(match, "MAX_MATCHES", 1)
    with connect(client) as first:
        first.send_json({"seats": SEATS})
        next_of(first, "ready")
        with connect(client) as second:
            second.send_json({"seats": SEATS})
            with pytest.raises(WebSocketDisconnect) as ended:
                next_of(second, "never")
            assert ended.value.code == 1013
    with connect(client) as third:
        third.send_json({"seats": SEATS})
        assert next_of(third, "ready")


def test_an_invalid_message_ends_the_match(client, make_run):
    make_run("first")
    with connect(client) as socket:
        socket.send_json({"seats": SEATS})
        next_of(socket, "ready")
        socket.send_json({"action": -1})
        with pytest.raises(WebSocketDisconnect) as ended:
            next_of(socket, "never")
        assert ended.value.code == 1008


def test_a_match_needs_a_token(anonymous):
    with pytest.raises(WebSocketDisconnect), connect(anonymous) as socket:
        next_of(socket, "never")


def test_run_names_in_a_plan_are_replaced_by_ids(context, make_run):
    directory = make_run("first")
    seats = ({"player": "person", "others": "first:best"}, {"player": "random"})
    plan = resolve_targets(context, MatchPlan(seats=seats, env_of="first:latest"))
    assert plan.seats[0].others == f"{directory.id}:best"
    assert (plan.seats[0].player, plan.seats[1].player, plan.env_of) == ("person", "random", f"{directory.id}:latest")
    with pytest.raises(HttpError, match="Unknown player"):
        resolve_targets(context, MatchPlan(seats=({"player": "first"},)))


def test_only_match_fields_are_forwarded():
    assert MatchViewerMessage(fps=5, ack=1).match_message() == {}
    assert MatchViewerMessage(action=0, paused=False, side=64).match_message() == {"action": 0, "paused": False}


PLAN = MatchPlan(seats=({"player": "first:1"},))
ECHO = """
import json, os, sys
asked = json.loads(sys.stdin.readline())
print(json.dumps({"asked": asked, "pid": os.getpid()}), flush=True)
for line in sys.stdin:
    print(json.dumps({"heard": json.loads(line)}), flush=True)
"""


@pytest.fixture
def use_program(monkeypatch):
    def use(text):
        monkeypatch.setattr(match, "PROGRAM", ("-c", textwrap.dedent(text)))

    return use


def test_the_process_gets_plan_and_messages_and_ends_with_the_block(use_program, tmp_path):
    use_program(ECHO)

    async def scene():
        async with running_match(PLAN, tmp_path, "m1") as match:
            messages = match.messages()
            first = await anext(messages)
            match.send({"action": 3})
            return first, await anext(messages)

    first, heard = asyncio.run(scene())
    assert first["asked"] == {"frame_buffer": "m1", "runs": str(tmp_path), "plan": PLAN.model_dump(mode="json")}
    assert MatchPlan.model_validate(first["asked"]["plan"]) == PLAN
    assert heard == {"heard": {"action": 3}}
    assert not psutil.pid_exists(first["pid"])


def test_a_process_that_fails_silently_reports_its_last_error_line(use_program, tmp_path):
    use_program("raise SystemExit('the disk is full')")

    async def scene():
        async with running_match(PLAN, tmp_path, "m1") as match:
            return [message async for message in match.messages()]

    (message,) = asyncio.run(scene())
    assert message["error"]["message"] == "The match ended with exit code 1: the disk is full"


def test_a_reported_error_is_not_repeated(use_program, tmp_path):
    use_program('import sys\nprint(\'{"error": {"message": "no", "hint": ""}}\')\nsys.exit(3)')

    async def scene():
        async with running_match(PLAN, tmp_path, "m1") as match:
            return [message async for message in match.messages()]

    assert asyncio.run(scene()) == [{"error": {"message": "no", "hint": ""}}]


def test_a_process_that_does_not_end_is_killed(use_program, tmp_path, monkeypatch):
    monkeypatch.setattr(match, "END_SECONDS", 0.1)
    use_program("import os, time\nprint('{\"pid\": %d}' % os.getpid(), flush=True)\nwhile True: time.sleep(1)")

    async def scene():
        async with running_match(PLAN, tmp_path, "m1") as match:
            return (await anext(match.messages()))["pid"]

    pid = asyncio.run(scene())
    assert pid != os.getpid()
    assert not psutil.pid_exists(pid)


def test_a_message_to_an_ended_process_is_lost(use_program, tmp_path):
    use_program("pass")

    async def scene():
        async with running_match(PLAN, tmp_path, "m1") as match:
            assert [message async for message in match.messages()] == []
            for _ in range(3):
                match.send({"action": 1})
                await asyncio.sleep(0)

    asyncio.run(scene())
