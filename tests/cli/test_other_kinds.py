"""A kind that does next to nothing stands for all of them; tests/apps/scripts has a real one."""

import json
import signal
import sys
import time

import pytest

from palaestra.cli import other_kinds
from palaestra.core import plugins
from palaestra.core.worker_kind import FieldError, Prepared, RequestRefused, Resources
from palaestra.runs.store import RunStore

PROGRAM = """
import json, sys
print("working on", sys.argv[1])
path = sys.argv[1] + "/status.json"
status = json.load(open(path))
status.update(state="finished", exit_code=0, agent_step=12, summary={"episodic_return": 7.0})
json.dump(status, open(path, "w"))
"""


class Sleepy:
    name = "sleepy"
    program = PROGRAM

    def schema(self):
        return {"properties": {"seconds": {"type": "number", "default": 1, "description": "of sleep"}}}

    def schema_of(self, config):
        return {"properties": {**self.schema()["properties"], **({"pillow": {}} if config.get("bed") else {})}}

    def prepare(self, request, machine, runs_root):
        if request.config.get("seconds") == "many":
            raise RequestRefused([FieldError("seconds", "'seconds=many' cannot be.", "It is a number.")])
        return Prepared(request, {"seconds": request.config.get("seconds", 1)}, Resources(1), 12)

    def command(self, run_directory):
        return [sys.executable, "-c", self.program, str(run_directory)]


@pytest.fixture
def kind(monkeypatch):
    sleepy = Sleepy()
    names, load = plugins.names, plugins.load
    monkeypatch.setattr(plugins, "names", lambda group: [*names(group), *(["sleepy"] if group == "workers" else [])])
    monkeypatch.setattr(plugins, "load", lambda group, name: sleepy if name == "sleepy" else load(group, name))
    return sleepy


def test_a_run_is_made_and_carried_out_with_its_output_in_the_log(call, kind):
    code, out, err = call("train", "sleepy", "seconds=2", "run=one")
    directory = RunStore().resolve("one")
    assert (code, out) == (0, "")
    assert f"working on {directory.path}" in directory.output_file().read_text()
    assert "'one' is finished at step 12, return 7.0" in err


def test_with_json_nothing_else_is_on_stdout(call, kind):
    code, out, err = call("train", "sleepy", "run=two", "--json")
    reports = json.loads(out)
    assert (code, reports["name"], reports["kind"], reports["state"], reports["agent_step"]) == (
        0,
        "two",
        "sleepy",
        "finished",
        12,
    )
    assert err == ""


def test_the_dry_run_prints_the_configuration_and_leaves_nothing(call, kind):
    code, out, _ = call("train", "sleepy", "seconds=2", "--dry-run")
    assert (code, out) == (0, "seconds: 2\n")
    assert RunStore().list() == []


def test_what_the_kind_refuses_is_reported_and_leaves_nothing(call, kind):
    code, _, err = call("train", "sleepy", "seconds=many")
    assert code == 2
    assert "'seconds=many' cannot be." in err
    assert RunStore().list() == []


@pytest.mark.parametrize("flag", [("--resume",), ("--profile",), ("--seeds", "1..2"), ("--nproc", "2")])
def test_flags_of_our_own_trainer_are_refused(call, kind, flag):
    code, _, err = call("train", "sleepy", *flag)
    assert code == 2
    assert flag[0] in err


def test_a_signal_is_handed_on_to_the_worker(kind, workplace, tmp_path):
    kind.program = "import signal, os, sys, time\nos.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(60)\n"
    directory = RunStore().create(kind_request(), {})
    began = time.monotonic()
    assert other_kinds._work(kind.command(directory.path), directory, is_quiet=True) == -signal.SIGTERM
    assert time.monotonic() - began < 50


def kind_request():
    return other_kinds.RunRequest("sleepy", "", {})


def test_the_daemon_gets_what_the_kind_made_of_the_words(call, kind, monkeypatch):
    requested = []

    class Daemon:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def submit(self, **request):
            requested.append(request)
            return {"id": "01X", "name": "one", "state": "queued", "agent_step": 0, "failure": ""}

    monkeypatch.setattr(other_kinds, "connect", Daemon)
    code, _, _ = call("train", "sleepy", "seconds=3", "--detach")
    assert (code, requested[0]["kind"], requested[0]["config"]) == (0, "sleepy", {"seconds": 3})


def test_help_lists_the_settings_as_they_are_known_by_then(call, kind):
    _, out, _ = call("train", "sleepy", "bed=true", "-h")
    assert "seconds=1" in out
    assert "number; of sleep" in out
    assert "pillow=…" in out
