"""A peer that trains nothing: a script in the place of its interpreter, which says what the protocol wants."""

import os
import sys
import time

import peers.running as running
import psutil
import pytest
from peers.catalogue import Peer
from peers.settings import CLEANRL, SOLVE

FAKE = Peer("fake", "Fake", "peers.fake", frozenset({"cleanrl"}))


@pytest.fixture
def fake(tmp_path):
    """Write the body of a peer; its path stands for the interpreter."""

    def write(body):
        script = tmp_path / "python"
        script.write_text(f"#!{sys.executable} -S\nimport json, os, sys, time\n{body}\n")
        script.chmod(0o755)
        return script

    return write


def test_what_a_peer_reported_becomes_figures(fake):
    script = fake("""
print("a library greets")
print("{not json")
for line in (
    {"event": "versions", "torch": "2.13"},
    {"event": "started", "seconds": 1.5, "steps": 512},
    {"event": "solved", "seconds": 9.0, "steps": 8192},
    {"event": "measured", "steps": 3000, "seconds": 1.5},
    {"event": "used", "cpu_seconds": 7.0, "memory_mb": 321.0},
):
    print(json.dumps(line))
""")
    found = running.measure(FAKE, CLEANRL, 1.0, 1, script)
    assert found.failed == ""
    assert (found.peer, found.setting, found.versions) == ("fake", "cleanrl", {"torch": "2.13"})
    assert (found.steps_per_second, found.start_seconds) == (2000.0, 1.5)
    assert (found.solved_seconds, found.solved_steps) == (9.0, 8192)
    assert (found.cpu_seconds, found.memory_mb) == (7.0, 321.0)


def test_a_peer_receives_its_job_and_held_to_its_cores(fake):
    script = fake("""
job = json.loads(os.environ["PALAESTRA_PEER_JOB"])
print(json.dumps({"event": "started", "seconds": job["seconds"], "steps": job["seed"]}))
told = {"cores": len(os.sched_getaffinity(0)), "words": sys.argv[1:], "threads": os.environ["OMP_NUM_THREADS"]}
print(json.dumps({"event": "versions", **told}))
""")
    before = os.sched_getaffinity(0)
    found = running.measure(FAKE, CLEANRL, 2.5, 3, script, "more")
    assert found.start_seconds == 2.5
    assert found.versions == {"cores": 1, "words": ["-m", "peers.fake", "more"], "threads": "1"}
    assert os.sched_getaffinity(0) == before


def test_a_peer_that_fails_is_named_with_its_last_words(fake):
    found = running.measure(FAKE, CLEANRL, 1.0, 1, fake("sys.exit('no module named jax')"))
    assert found.failed == "ended with 1: no module named jax"
    assert found.steps_per_second is None


def test_a_peer_that_says_nothing_has_failed_too(fake):
    assert "without a single update" in running.measure(FAKE, CLEANRL, 1.0, 1, fake("pass")).failed


@pytest.mark.parametrize("setting", [CLEANRL, SOLVE])
def test_a_peer_that_hangs_is_killed_with_what_it_started(fake, tmp_path, monkeypatch, setting):
    monkeypatch.setattr(running, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(running, "PATIENCE_SECONDS", 0.4)
    script = fake(f"""
child = os.fork()
if child:
    open({str(tmp_path / "pid")!r}, "w").write(str(child))
time.sleep(60)
""")
    found = running.measure(FAKE, setting, 0.1, 1, script)
    assert "killed after" in found.failed
    assert found.process_seconds < 30
    pid, deadline = int((tmp_path / "pid").read_text()), time.monotonic() + 10
    while not is_gone(pid):
        assert time.monotonic() < deadline


def is_gone(pid):
    """Perhaps not yet buried by whoever adopted it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_memory_is_that_of_the_whole_tree(fake, monkeypatch):
    monkeypatch.setattr(running, "POLL_SECONDS", 0.05)
    script = fake("""
held = b"x" * (60 << 20)
child = os.fork()
if child == 0:
    own = bytearray(os.urandom(1)) * (60 << 20)
    time.sleep(1)
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps({"event": "started", "seconds": 1.0, "steps": 1}))
""")
    assert running.measure(FAKE, CLEANRL, 1.0, 1, script).memory_mb > 150
