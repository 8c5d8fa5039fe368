from __future__ import annotations

import json
import os
import struct
import threading
import time
from contextlib import contextmanager
from time import monotonic

import numpy as np
import psutil
import pytest
from starlette.websockets import WebSocketDisconnect
from websockets.sync.client import connect

from palaestra.rendering.frame_buffer import VARIABLE, FrameBufferOwner, frame_buffer_path
from palaestra.rendering.frame_format import Heartbeat, Numbers
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.runs.processes import process_started_at
from palaestra.web.sockets.live_view import SERVICE


class FrameBuffer:
    """The worker's end: `draw` publishes one picture for each slot, as a training would."""

    def __init__(self, run_id, role="train", slots=2, side=64) -> None:
        self.owner = FrameBufferOwner(
            frame_buffer_path(run_id, role), slots, side * side * 3, process_started_at(os.getpid())
        )
        self.writer = FrameWriter(self.owner.descriptor, self.owner.about)
        self.slots, self.side, self.drawn = slots, side, 0

    def draw(self) -> None:
        demand = self.writer.demand(monotonic())
        self.drawn += 1
        noise = np.random.default_rng(self.drawn).integers(0, 256, (self.side, self.side, 3), np.uint8)
        for slot in range(self.slots):
            self.writer.write(slot, noise, Numbers(self.drawn, 1.0, 2.0, 3))
            if demand is not None:
                self.writer.notify(demand, slot)

    def close(self) -> None:
        self.writer.close()
        self.owner.close()


@pytest.fixture
def open_frame_buffer(tmp_path, monkeypatch):
    (tmp_path / "lanes").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lanes"))
    opened = []

    def make(run_id, role="train", slots=2, side=64):
        opened.append(FrameBuffer(run_id, role, slots, side))
        return opened[-1]

    yield make
    for lane in opened:
        lane.close()


def number_of(message):
    return struct.unpack_from("<Q", message, 16)[0]


def next_of(socket, kind):
    """The next frame (bytes) or the next message that has this word."""
    while True:
        message = socket.receive()
        if kind is bytes and message.get("bytes"):
            return message["bytes"]
        if message["type"] == "websocket.close":
            raise WebSocketDisconnect(message["code"], message.get("reason"))
        if kind is not bytes and message.get("text") and kind in json.loads(message["text"]):
            return json.loads(message["text"])


@contextmanager
def watching(client, path="/api/runs/first/frames"):
    with client.websocket_connect(f"ws://127.0.0.1:7878{path}") as socket:
        yield socket


def test_a_viewer_gets_state_hud_and_frames(client, make_run, open_frame_buffer):
    lane = open_frame_buffer(make_run("first").id)
    lane.draw()
    with watching(client) as socket:
        assert next_of(socket, "state")["state"] == "connected"
        hud = next_of(socket, "hud")["hud"]
        assert hud["line"].startswith("first")
        assert (hud["role"], hud["slots"]) == ("train", 2)
        frame = next_of(socket, bytes)
        assert frame[:2] == b"PF"
        assert number_of(frame) == 1


def test_without_acknowledgement_two_frames_are_sent_and_then_the_newest(client, make_run, open_frame_buffer):
    lane = open_frame_buffer(make_run("first").id, slots=1)
    lane.draw()
    with watching(client) as socket:
        socket.send_json({"fps": 60})
        assert number_of(next_of(socket, bytes)) == 1
        lane.draw()
        assert number_of(next_of(socket, bytes)) == 2
        for _ in range(10):
            lane.draw()
        before = next_of(socket, "hud")["hud"]["sent"]
        assert next_of(socket, "hud")["hud"]["sent"] == before == 2
        socket.send_json({"ack": 1})
        assert number_of(next_of(socket, bytes)) == 12


def test_a_viewer_gets_only_the_requested_slots(client, make_run, open_frame_buffer):
    lane = open_frame_buffer(make_run("first").id, slots=4)
    with watching(client) as socket:
        socket.send_json({"slots": [2], "fps": 60})
        assert next_of(socket, "state")["state"] == "connected"
        observed = set()
        for _ in range(3):
            lane.draw()
            frame = next_of(socket, bytes)
            observed.add(struct.unpack_from("<H", frame, 4)[0])
            socket.send_json({"ack": 1})
        assert observed == {2}


def test_a_run_without_a_frame_buffer_is_unavailable(client, make_run, open_frame_buffer):
    directory = make_run("first")
    with watching(client) as socket:
        state = next_of(socket, "state")
        assert (state["state"], state["reason"]) == ("unavailable", "The run has no frame buffer yet.")
        lane = open_frame_buffer(directory.id)
        assert next_of(socket, "state")["state"] == "connected"
        lane.writer.write_heartbeat(Heartbeat(monotonic(), 100, 1, 0, 0.0, 0.0, "closed", ""))
        assert next_of(socket, "state")["state"] == "closed"


def test_the_frame_buffer_of_an_evaluation_is_used_without_a_training(client, make_run, open_frame_buffer):
    directory = make_run("first")
    with watching(client) as socket:
        assert next_of(socket, "state")["role"] == "train"
        open_frame_buffer(directory.id, "eval").draw()
        assert next_of(socket, "state") == {"state": "connected", "reason": "", "role": "eval"}
        hud = next_of(socket, "hud")["hud"]
        assert hud["evaluation"] == "eval | no batch is complete yet"
        assert "(Eval)" in hud["line"]


def test_a_state_change_is_logged_once_for_all_viewers(client, make_run, open_frame_buffer, caplog):
    open_frame_buffer(make_run("first").id)
    caplog.set_level("INFO", "palaestra.web.sockets.live_view")
    with watching(client) as one, watching(client) as two:
        for socket in (one, two):
            next_of(socket, "state")
            next_of(socket, "hud")
            next_of(socket, "hud")
    assert [record.message for record in caplog.records if "frames.connected" in record.message] == [
        caplog.records[0].message
    ]
    assert "role=train" in caplog.records[0].message


@pytest.mark.parametrize("text", ["{", '{"fps": 0}'])
def test_an_invalid_message_closes_the_socket_with_the_reason(client, make_run, open_frame_buffer, text):
    open_frame_buffer(make_run("first").id)
    with watching(client) as socket:
        socket.send_text(text)
        with pytest.raises(WebSocketDisconnect) as ended:
            next_of(socket, "never")
        assert ended.value.code == 1008
        assert ended.value.reason


def test_a_binary_message_closes_the_frame_socket(client, make_run, open_frame_buffer):
    open_frame_buffer(make_run("first").id)
    with watching(client) as socket:
        socket.send_bytes(b"{}")
        with pytest.raises(WebSocketDisconnect):
            next_of(socket, "never")


def test_an_unknown_run_and_an_unknown_role_are_refused(client, make_run, open_frame_buffer):
    make_run("first")
    for path, code in (("/api/runs/nobody/frames", 4404), ("/api/runs/first/frames?role=../x", 1008)):
        with watching(client, path) as socket, pytest.raises(WebSocketDisconnect) as ended:
            next_of(socket, "never")
        assert ended.value.code == code


@pytest.mark.fault("W6")
def test_too_many_viewers_are_refused_until_one_leaves(client, context, make_run, open_frame_buffer):
    open_frame_buffer(make_run("first").id)
    hub = context.services[SERVICE].hub
    hub._max_viewers = 1
    with watching(client) as first:
        next_of(first, "hud")
        with watching(client) as second, pytest.raises(WebSocketDisconnect) as ended:
            next_of(second, "never")
        assert ended.value.code == 1013
    with watching(client) as third:
        next_of(third, "hud")
    deadline = monotonic() + 60
    while hub.viewer_count and monotonic() < deadline:
        time.sleep(0.01)
    assert hub.viewer_count == 0


@pytest.mark.full
@pytest.mark.fault("W5")
@pytest.mark.slow
def test_a_slow_viewer_does_not_delay_others(live, make_run, open_frame_buffer, figure):
    lane = open_frame_buffer(make_run("first").id, slots=4, side=256)
    path = f"ws://127.0.0.1:{live.port}/api/runs/first/frames"
    drawing = threading.Event()

    def draw():
        while not drawing.wait(0.03):
            lane.draw()

    painter = threading.Thread(target=draw)
    with connect(path, additional_headers=live.bearer) as quick, connect(path, additional_headers=live.bearer) as slow:
        painter.start()
        for socket in (quick, slow):
            socket.send(json.dumps({"fps": 30, "side": 256, "quality": 90}))
        rate_of(quick, 2.0)
        memory = psutil.Process().memory_info().rss
        received = rate_of(quick, 4.0)
        grown = psutil.Process().memory_info().rss - memory
        drawing.set()
        painter.join()
        hub = live.context.services[SERVICE].hub
        viewers = sorted((viewer for watch in hub._watches.values() for viewer in watch.viewers), key=lambda v: v.sent)
        assert viewers[0].sent == 2
        assert viewers[0].skipped > 100
    figure("frames of the quick viewer in 4 s", received)
    figure("KB the server grew", grown >> 10)
    assert received > 40
    assert grown < 10 << 20


def rate_of(socket, seconds):
    """Frames taken by one who reads and acknowledges all"""
    until, frames = monotonic() + seconds, 0
    while monotonic() < until:
        if isinstance(socket.recv(timeout=60), bytes):
            frames += 1
            socket.send('{"ack": 1}')
    return frames
