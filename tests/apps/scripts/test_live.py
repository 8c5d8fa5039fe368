"""Pictures of a script's environments, watched as the web page watches them."""

import os
import select
import signal
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from palaestra.apps.scripts.kind import KIND
from palaestra.apps.scripts.launch import read_launch_spec
from palaestra.apps.scripts.live import ScriptFrameBuffer
from palaestra.apps.scripts.metrics import ScriptMetrics
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.hub import RENEW_SECONDS, Hub
from palaestra.rendering.viewer import Viewer, ViewerRequest
from palaestra.runs.journal import Journal, read_journal
from palaestra.runs.processes import is_alive

PATIENCE_SECONDS = 120


@pytest.fixture(autouse=True)
def lanes(tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_FRAME_BUFFERS_DIR", str(tmp_path))


def test_a_frame_buffer_is_made_when_the_environments_are_known_and_gone_at_the_end(runs, scripts):
    directory = runs.make(scripts / "ppo.py")
    path, metrics = read_launch_spec(directory).frame_buffer, ScriptMetrics()
    with ScriptFrameBuffer(path, Journal(directory)) as frame_buffer:
        frame_buffer.take([["env", 0], ["env", 1]], metrics)
        assert not path.exists(), "more may be made before the first step"
        metrics.take([["heartbeat", 4, 1.0]])
        frame_buffer.take([["live_view_failed", "no screen"]], metrics)
        with closing(FrameReader(path)) as reader:
            assert reader.slot_count == 2
    assert not path.exists()
    failed = [entry.data for entry in read_journal(directory.journal_file) if entry.event == "frames.failed"]
    assert failed == [{"reason": "no screen", "role": "train"}]


def test_a_budget_of_zero_means_no_frame_buffer(runs, scripts):
    directory = runs.make(scripts / "ppo.py", live_budget=0)
    assert read_launch_spec(directory).frame_buffer is None
    metrics = ScriptMetrics()
    metrics.take([["heartbeat", 4, 1.0]])
    with ScriptFrameBuffer(None, Journal(directory)) as frame_buffer:
        frame_buffer.take([["env", 0]], metrics)


def test_a_frame_buffer_that_cannot_be_made_is_reported_and_does_not_stop_the_script(runs, scripts, tmp_path):
    directory, metrics = runs.make(scripts / "ppo.py"), ScriptMetrics()
    metrics.take([["heartbeat", 4, 1.0]])
    with ScriptFrameBuffer(tmp_path / "absent" / "a.frames", Journal(directory)) as frame_buffer:
        frame_buffer.take([["env", 0]], metrics)
        frame_buffer.take([["env", 1]], metrics)
    assert [entry.event for entry in read_journal(directory.journal_file)].count("frames.failed") == 1


def slots_seen(directory, wanted, process):
    """Slots of which pictures came, by the time that all `wanted` have, each with the episode's numbers."""
    hub, viewer = Hub(is_alive), Viewer(ViewerRequest(frames_per_second=15, slots=frozenset(wanted), largest_side=256))
    watch = hub.join(directory.id, "train", viewer)
    visited, deadline = set(), time.monotonic() + PATIENCE_SECONDS
    try:
        while visited != set(wanted) and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()[0]
            hub.renew(time.monotonic())
            if select.select([hub], [], [], RENEW_SECONDS)[0]:
                hub.on_notification()
            while (message := watch.take(viewer, time.monotonic())) is not None:
                assert message[:2] == b"PF"
                visited.add(int.from_bytes(message[4:6], "little"))
                viewer.acknowledge()
        return visited
    finally:
        hub.close()


def render_processes(directory):
    """Command lines of those that write into the frame buffer of this run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if any(directory.id in word for word in words) and any(
                word.endswith("rendering/start.py") for word in words
            ):
                found.append(words)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "asynchronous"),
    [
        ("CartPole-v1", False),
        pytest.param("CartPole-v1", True, marks=pytest.mark.full),
        pytest.param("LunarLander-v3", False, marks=pytest.mark.full),
    ],
)
def test_every_environment_of_a_script_is_seen_in_its_own_slot(runs, scripts, env_id, asynchronous):
    """Rendered by one process beside the script, which ends with it."""
    config = {"num_envs": 3, "total_timesteps": 10**9, "asynchronous": asynchronous, "env_id": env_id}
    directory = runs.make(scripts / "ppo.py", **config)
    process = subprocess.Popen(
        KIND.command(directory.path),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert slots_seen(directory, range(3), process) == {0, 1, 2}
        assert len(render_processes(directory)) == 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert not read_launch_spec(directory).frame_buffer.exists()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while render_processes(directory):
        assert time.monotonic() < deadline, "a render process was left behind"
        time.sleep(0.01)
