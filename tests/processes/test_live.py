"""The live view with real processes: nothing that happens to it, or to those who watch, reaches the training."""

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from palaestra.rendering.frame_buffer import VARIABLE, FrameBufferOwner, frame_buffer_path
from palaestra.rendering.frame_format import Numbers
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.rendering.hub import Hub
from palaestra.rendering.viewer import Viewer, ViewerRequest
from palaestra.runs.journal import read_journal
from palaestra.runs.processes import is_alive

SETTINGS = ["train", "cartpole", "total_steps=7680", "checkpoints.save_interval=10", "--quiet"]


class Audience(threading.Thread):
    """Watches a lane as a server does: one hub, several viewers, until told to leave."""

    def __init__(self, path_of, viewers=4, slow=0, seen=None):
        super().__init__(daemon=True)
        self._path_of, self._leave = path_of, threading.Event()
        self._seen = seen  # a file that is made once every tile was seen to move
        self.viewers = [Viewer(ViewerRequest(60.0)) for _ in range(viewers)]
        self.slow = self.viewers[:slow]  # they take one frame and never acknowledge
        self.slots: dict[int, set[bytes]] = {}
        self.conditions: list[str] = []

    def run(self):
        hub = Hub(is_alive)
        while (run_id := self._path_of()) is None and not self._leave.is_set():
            time.sleep(0.005)
        watches = [hub.join(run_id, "train", viewer) for viewer in self.viewers]
        while not self._leave.is_set():
            hub.renew(time.monotonic())
            if select.select([hub], [], [], 0.05)[0]:
                hub.on_notification()
            for viewer in self.viewers:
                self._take(watches[0], viewer)
            if self._seen is not None and self.saw_every_tile_move():
                self._seen.touch()
            if watches[0].status.condition not in self.conditions[-1:]:
                self.conditions.append(watches[0].status.condition)
        self.status = watches[0].status
        hub.close()

    def _take(self, watch, viewer):
        while (message := watch.take(viewer, time.monotonic())) is not None:
            self.slots.setdefault(message[4], set()).add(message[64:])
            if viewer not in self.slow:
                viewer.acknowledge()

    def saw_every_tile_move(self, tiles=8):
        return len(self.slots) == tiles and all(len(pictures) > 2 for pictures in self.slots.values())

    def leave(self):
        self._leave.set()
        self.join(timeout=30)
        assert not self.is_alive()


@pytest.fixture
def audience_of(server):
    opened = []

    def make(name, **how):
        def run_id():
            found = server.run(name)
            return None if found is None else found.id

        opened.append(Audience(run_id, **how))
        opened[-1].start()
        return opened[-1]

    yield make
    for audience in opened:
        audience.leave()


@pytest.mark.slow
def test_watched_unwatched_and_switched_off_runs_are_the_same_to_the_last_bit(server, audience_of, differences):
    off = server(*SETTINGS, "run=off", "live.enabled=false")
    assert off.code == 0, off.err
    unwatched = server(*SETTINGS, "run=unwatched")
    assert unwatched.code == 0, unwatched.err
    audience = audience_of("watched", viewers=16, slow=1, seen=server.home / "seen")
    watched = server(*SETTINGS, "run=watched", "live.budget=0.5", plant="slow motion")
    assert watched.code == 0, watched.err
    audience.leave()
    assert audience.saw_every_tile_move(), {slot: len(pictures) for slot, pictures in audience.slots.items()}
    assert differences(server.run("off"), server.run("unwatched")) == []
    assert differences(server.run("off"), server.run("watched")) == []
    assert audience.slow[0].sent == 2
    assert audience.status.dropped == 0
    assert not frame_buffer_path(server.run("watched").id).exists()


@pytest.mark.fault("F2")
@pytest.mark.slow
def test_a_killed_run_leaves_a_frame_buffer_that_its_next_process_sweeps_and_the_audience_follows(
    server, audience_of, wait_until
):
    arguments = ["train", "cartpole", "total_steps=10000000", "checkpoints.save_interval=5", "--quiet", "run=killed"]
    first = server.start(*arguments, "live.budget=0.5")
    audience = audience_of("killed")
    wait_until(lambda: audience.slots, "a picture")
    wait_until(lambda: server.saved_epochs("killed"), "a checkpoint")
    first.send(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    left = frame_buffer_path(server.run("killed").id)
    assert left.exists()
    wait_until(lambda: audience.conditions[-1] == "closed", "the end to be noticed")
    second = server.start(*arguments, "live.budget=0.5")
    wait_until(lambda: audience.conditions[-1] == "connected", "the new lane")
    audience.slots.clear()
    wait_until(lambda: audience.slots, "a picture of the run that goes on")
    second.send(signal.SIGTERM)  # pygame has drawn: it must not have taken the signal for itself
    assert second.wait() == 143, second.err.read_text()
    assert not left.exists()


FULL = ["train", "cartpole", "total_steps=5120", "engine=torch", "--quiet"]  # long enough that somebody looks


def train_in_small_memory(palaestra, size, name):
    """The same training and a viewer, where lanes lie in a memory of `size`."""
    location = palaestra.home / f"lanes-{name}"
    location.mkdir()
    script = Path(__file__).with_name("full_memory.py")
    command = f'mount -t tmpfs -o size={size} none "{location}" && exec "$@"'
    arguments = ["unshare", "-Urm", "sh", "-c", command, "sh", sys.executable, str(script), *FULL, f"run={name}"]
    variables = {**palaestra.variables, VARIABLE: str(location)}
    return subprocess.run(arguments, cwd=palaestra.home, env=variables, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def can_mount():
    tried = subprocess.run(["unshare", "-Urm", "true"], capture_output=True)
    if tried.returncode:
        pytest.skip("no mount of one's own can be had here (unshare -Urm)")


@pytest.mark.fault("F1")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "said"),
    [
        pytest.param("4k", "its lane could not be made", marks=pytest.mark.full),
        ("64k", "The live view is off from now on"),
    ],
    ids=["for the lane", "for a picture"],
)
def test_shared_memory_that_is_full_ends_the_live_view_and_nothing_else(can_mount, palaestra, differences, size, said):
    done = palaestra(*FULL, "run=without", "live.enabled=false")
    assert done.code == 0, done.err
    full = train_in_small_memory(palaestra, size, "full")
    assert full.returncode == 0, full.stderr
    reports = [line for line in full.stderr.splitlines() if line.strip()]
    assert len(reports) == 1, reports
    assert said in reports[0]
    assert "No space left on device" in reports[0]
    directory = palaestra.run("full")
    assert differences(palaestra.run("without"), directory) == []
    events = [entry for entry in read_journal(directory.journal_file) if entry.event == "frames.failed"]
    assert len(events) == 1


def write_for_ever(writer: FrameWriter, sizes: list[int], seed: int) -> None:
    """Every byte of a frame, and every number beside it, follows from its step."""
    step = seed * 1_000_000
    while True:
        step += 1
        side = sizes[step % len(sizes)]
        content = np.full((side, side, 3), step % 251, np.uint8)
        writer.write(step % 2, content, Numbers(step, float(step), float(step % 7), step % 251))


def is_whole(frame) -> bool:
    step = frame.numbers.env_step
    numbers = (float(step), float(step % 7), step % 251)
    return (
        frame.payload == bytes([step % 251]) * (frame.header.width * frame.header.height * 3)
        and (frame.numbers.reward, frame.numbers.total_reward, frame.numbers.length) == numbers
        and step % 2 == frame.slot
    )


def torn_frames(tmp_path, reads: int, kills: int) -> dict[str, int]:
    """Read while a process writes, and kill it at any instant, again and again."""
    chance = random.Random(7)
    tally = {"reads": 0, "frames": 0, "torn": 0, "kills": 0, "lost": 0, "vanished": 0}
    with FrameBufferOwner(tmp_path / "palaestra-x-train.frames", 2, 200 * 200 * 3, 1.0) as owner:
        reader = FrameReader(owner.path)
        while tally["kills"] < kills or tally["reads"] < reads:
            child = os.fork()
            if child == 0:
                write_for_ever(FrameWriter(owner.descriptor, owner.about), [200, 3, 120], tally["kills"] + 1)
            until = time.monotonic() + chance.uniform(0.0, 0.05)
            while time.monotonic() < until:
                read_both(reader, tally)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            tally["kills"] += 1
            before = tally["frames"]
            read_both(reader, tally)
            tally["lost"] += tally["kills"] > 20 and tally["frames"] - before < 2  # what was written stays readable
        tally["dropped"] = reader.dropped.total()
        tally["vanished"] -= tally["dropped"]
        reader.close()
    return tally


def read_both(reader: FrameReader, tally: dict[str, int]) -> None:
    for slot in range(2):
        frame = reader.read(slot)
        tally["reads"] += 1
        if frame is not None:
            tally["frames"] += 1
            tally["torn"] += not is_whole(frame)
        else:  # a slot that had a frame once always has one, but for those that are not believed
            tally["vanished"] += tally["kills"] > 20


@pytest.mark.fault("F4")
@pytest.mark.slow
def test_a_writer_killed_at_any_instant_leaves_no_torn_frame(tmp_path, figure):
    tally = torn_frames(tmp_path, reads=10_000, kills=100)
    for name, count in tally.items():
        figure(name, count)
    assert (tally["torn"], tally["lost"], max(tally["vanished"], 0)) == (0, 0, 0), tally
    assert tally["frames"] > 5_000


@pytest.mark.fault("F4")
@pytest.mark.chaos
def test_a_hundred_thousand_reads_of_writers_that_are_killed(tmp_path, figure):
    tally = torn_frames(tmp_path, reads=100_000, kills=1_000)
    for name, count in tally.items():
        figure(name, count)
    assert (tally["torn"], tally["lost"], max(tally["vanished"], 0)) == (0, 0, 0), tally
    assert tally["frames"] > 50_000
