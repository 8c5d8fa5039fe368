"""Words to requests; the daemon is a stand-in here, tests/client has a real one."""

import json

import pytest

from palaestra.cli import submit
from palaestra.core.errors import NotFound

RUN = {"id": "01X", "name": "one", "state": "queued", "agent_step": 0, "failure": ""}


class Daemon:
    def __init__(self):
        self.asked, self.states = [], ["running", "finished"]
        self.errors = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def submit(self, **request):
        self.asked.append(request)
        return RUN

    def check(self, **request):
        self.asked.append(request)
        return {"errors": self.errors, "config": {}, "yaml": "a: 1\n", "command": ""}

    def run(self, run_id):
        return {"run": {**RUN, "id": run_id, "state": self.states.pop(0)}}


@pytest.fixture
def daemon(monkeypatch):
    daemon = Daemon()
    monkeypatch.setattr(submit, "connect", lambda: daemon)
    monkeypatch.setattr(submit, "POLL_SECONDS", 0)
    return daemon


def test_words_become_a_request(call, daemon):
    arguments = (
        "cartpole",
        "run=one",
        "total_steps=1e5",
        "ppo.gamma=0.9",
        "nproc=2",
        "executor=ray",
        "--priority",
        "3",
        "--memory",
        "500",
    )
    code, out, err = call("submit", *arguments)
    assert (code, out) == (0, "")
    assert "'one' (01X) is queued" in err
    (request,) = daemon.asked
    assert request == {
        "kind": "native",
        "recipe": "cartpole",
        "config": {"total_steps": 1e5, "ppo": {"gamma": 0.9}},
        "name": "one",
        "executor": "ray",
        "nproc": 2,
        "submitted_by": "cli",
        "command": "palaestra submit cartpole run=one total_steps=1e5 ppo.gamma=0.9 nproc=2 executor=ray",
        "priority": 3,
        "limits": {"memory": 500, "log": None},
    }


def test_as_json_the_run_is_all_there_is(call, daemon):
    code, out, err = call("submit", "cartpole", "--json")
    assert (code, json.loads(out), err) == (0, RUN, "")


def test_waiting_ends_with_how_it_ended(call, daemon):
    assert call("submit", "cartpole", "--wait")[0] == 0
    daemon.states = ["running", "failed"]
    code, _, err = call("submit", "cartpole", "--wait")
    assert code == 1
    assert "is failed" in err


def test_a_dry_run_says_what_would_be_or_what_is_wrong(call, daemon):
    assert call("submit", "cartpole", "--dry-run")[:2] == (0, "a: 1\n")
    daemon.errors = [{"key": "x", "message": "No key named 'x'.", "hint": ""}]
    code, out, err = call("submit", "cartpole", "--dry-run")
    assert (code, out) == (2, "")
    assert "No key named 'x'" in err


def test_train_detach_asks_the_same(call, daemon):
    code, out, _ = call("train", "cartpole", "run=one", "--nproc", "2", "--detach")
    assert (code, out) == (0, "")
    assert daemon.asked[0]["nproc"] == 2
    assert daemon.asked[0]["command"] == "palaestra train cartpole run=one --nproc 2"
    assert call("train", "cartpole", "--detach", "--resume")[0] == 2


def test_without_a_daemmeanwhile_to_one_is_reported(call):
    for arguments in (("submit", "cartpole"), ("train", "cartpole", "--detach")):
        code, out, err = call(*arguments)
        assert (code, out) == (NotFound.exit_code, "")
        assert "palaestra serve" in err


def test_a_script_is_meant_as_observed_from_here_and_not_from_where_the_daemon_stands(
    call, daemon, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert call("submit", "--kind", "cleanrl", "script=room/ppo.py", "seed=3")[0] == 0
    assert call("submit", "--kind", "cleanrl", "script=/elsewhere/ppo.py")[0] == 0
    scripts = [request["config"]["script"] for request in daemon.asked]
    assert scripts == [str(tmp_path / "room" / "ppo.py"), "/elsewhere/ppo.py"]
    assert daemon.asked[0]["config"]["seed"] == 3
