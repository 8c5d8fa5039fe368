"""The actor's class without Ray, with a program in place of a trainer."""

import json
import signal
import sys
import threading

import pytest

from palaestra.cluster import trial as trial_module
from palaestra.cluster.trial import TrialActor
from palaestra.workers.account import PIPE

NOWHERE = "/no/such/folder"
SAYS = f"""
import json, os, sys
text = sys.stdin.read()
print("trained", text, flush=True)
account = {{"exit_code": 2, "at": 1.0, "error": "It fell.", "hint": "Stand."}}
os.write(int(os.environ["{PIPE}"]), json.dumps(account).encode())
sys.exit(2)
"""


@pytest.fixture
def program(monkeypatch):
    popen = trial_module.subprocess.Popen

    def choose(text):
        monkeypatch.setattr(
            trial_module.subprocess, "Popen", lambda words, **rest: popen([sys.executable, "-c", text], **rest)
        )

    return choose


def test_a_trial_gets_its_job_writes_its_log_and_says_what_went_wrong(program, tmp_path):
    program(SAYS)
    log = tmp_path / "trial.log"
    log.write_text("before\n")
    assert TrialActor().run(json.dumps({"a": 1}), str(log), str(tmp_path)) == (2, "It fell. Stand.")
    assert log.read_text() == 'before\ntrained {"a": 1}\n'


def test_a_trial_that_is_stopped_hears_sigterm(program, tmp_path):
    program("import sys, signal; sys.stdin.read(); print('ready', flush=True); signal.pause()")
    actor, log, ends = TrialActor(), tmp_path / "log", []
    thread = threading.Thread(target=lambda: ends.append(actor.run("{}", str(log), NOWHERE)))
    thread.start()
    while not (log.exists() and "ready" in log.read_text()):
        assert thread.is_alive()
    actor.stop()
    thread.join(30)
    assert ends == [(-signal.SIGTERM, "Its process was ended by SIGTERM.")]


def test_a_trial_that_was_stopped_before_it_began_does_not_begin(tmp_path):
    actor = TrialActor()
    actor.stop()
    assert actor.run("{}", str(tmp_path / "log"), NOWHERE) == (143, "")
    assert not (tmp_path / "log").exists()


def test_a_silent_end_is_told_with_its_code(program, tmp_path):
    program("import sys; sys.exit(7)")
    assert TrialActor().run("{}", str(tmp_path / "log"), NOWHERE) == (
        7,
        "It ended with exit code 7 and without a word.",
    )
