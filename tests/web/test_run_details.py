import json

from palaestra.contracts.run import RunState
from palaestra.runs.journal import Journal
from palaestra.runs.status import moved, read_record, write_record


def fail(directory, reason="it broke"):
    write_record(directory, moved(read_record(directory), RunState.FAILED, failure=reason))


def test_a_run_is_shown_with_what_was_asked_and_what_was_run(client, make_run):
    make_run("first", config={"seed": 1, "ppo": {"gamma": 0.9}})
    shown = client.get("/api/runs/first").json()
    assert shown["request"]["recipe"] == "cartpole"
    assert shown["config"] == {"seed": 1, "ppo": {"gamma": 0.9}}
    assert shown["environment"]["packages"]["palaestra"]
    assert shown["failure"] is None


def test_a_failure_tells_cause_signal_and_the_last_words(client, daemon, make_run):
    directory = make_run("first")
    fail(directory, "its process was ended by SIGKILL")
    Journal(directory).record("worker.ended", exit_code=137, signal="SIGKILL", cause="", output=[])
    with directory.journal_file.open("a") as journal:
        journal.write("{torn\n")
    directory.output_file().write_bytes(b"one\ntwo \x1b[31mred\xff\n")
    daemon._supervisor.gather()
    failure = client.get("/api/runs/first").json()["failure"]
    assert (failure["message"], failure["signal"]) == ("its process was ended by SIGKILL", "SIGKILL")
    assert failure["log_tail"] == ["one", r"two \x1b[31mred\xff"]


def test_what_cannot_be_read_is_null_and_the_rest_is_shown(client, daemon, make_run):
    directory = make_run("first")
    directory.config_file.write_text("a: [")
    directory.request_file.unlink()
    directory.environment_file.write_text(json.dumps([1]) + "x")
    shown = client.get("/api/runs/first").json()
    assert (shown["config"], shown["request"], shown["environment"], shown["command"]) == (None, None, None, "")
    assert shown["run"]["name"] == "first"
