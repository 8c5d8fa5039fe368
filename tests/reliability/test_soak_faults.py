"""The faults of a soak do what they are called, with a stand-in for the services."""

import random
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tools.reliability import soak_faults
from tools.reliability.soak_faults import FAULTS, damage_checkpoint, freeze_daemon, kill_daemon, throw_viewers_out
from tools.reliability.soak_services import RUNS

CHANCE = random.Random(1)


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"])
    yield process
    process.kill()
    process.wait()


def test_a_killed_daemon_is_gone(sleeper):
    kill_daemon(SimpleNamespace(daemon=sleeper), CHANCE)
    assert sleeper.returncode == -signal.SIGKILL


def test_a_frozen_daemon_goes_on(monkeypatch):
    monkeypatch.setattr(soak_faults, "FROZEN_SECONDS", 0.0)
    sent = []
    freeze_daemon(SimpleNamespace(daemon=SimpleNamespace(send_signal=sent.append)), CHANCE)
    assert sent == [signal.SIGSTOP, signal.SIGCONT]


def test_damage_kills_first_and_then_cuts_the_newest_weights(tmp_path, monkeypatch):
    weights = tmp_path / "model_0002.safetensors"
    weights.write_bytes(bytes(5000))
    summary = []
    monkeypatch.setattr(soak_faults, "read_monitor_record", lambda _: SimpleNamespace(worker="worker"))
    monkeypatch.setattr(soak_faults, "send_signal", lambda *what: summary.append((*what, weights.stat().st_size)))
    cut = []
    audits = dict.fromkeys(RUNS, SimpleNamespace(cut=cut.append))
    services = SimpleNamespace(directory=lambda _: None, newest_weights=lambda _: weights, run_audits=audits)
    damage_checkpoint(services, CHANCE)
    assert summary == [("worker", signal.SIGKILL, 5000)]
    assert (weights.stat().st_size < 100, cut) == (True, [2])


def test_all_viewers_are_thrown_out():
    left = []
    viewers = [SimpleNamespace(leave=lambda number=number: left.append(number)) for number in range(3)]
    throw_viewers_out(SimpleNamespace(viewers=viewers), CHANCE)
    assert left == [0, 1, 2]


def test_every_fault_has_a_name_of_its_own():
    assert len({fault.__name__ for fault in FAULTS}) == len(FAULTS) >= 10
