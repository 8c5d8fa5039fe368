from __future__ import annotations

import json
import threading

import pytest

from palaestra.core.run import RunState
from palaestra.daemon.errors import QueueFull, StoreRefused
from palaestra.runs.documents import read_request

NAP = {"kind": "nap", "config": {"seconds": 60}}


def submit(client, **changes):
    reply = client.post("/api/runs", json={**NAP, **changes})
    assert reply.status_code == 201, reply.text
    return reply.json()["run"]


def wait_for(daemon, run_id, *states, seconds=60.0):
    if daemon.get(run_id).state not in states:
        reached = threading.Event()
        unsubscribe = daemon.events.subscribe(
            lambda event: event.entry and event.entry.state in states and reached.set()
        )
        try:
            assert daemon.get(run_id).state in states or reached.wait(seconds)
        finally:
            unsubscribe()
    return daemon.get(run_id)


def test_a_run_is_submitted_started_stopped_and_removed(client, daemon):
    run = submit(client, name="one")
    assert (run["name"], run["kind"], run["submitted_by"]) == ("one", "nap", "api")
    wait_for(daemon, run["id"], RunState.RUNNING)
    assert client.get("/api/runs/one").json()["run"]["state"] == "running"
    assert client.delete("/api/runs/one").status_code == 409
    assert client.post("/api/runs/one/stop", json={"grace_seconds": 5}).status_code == 200
    daemon.wait(run["id"], 60)
    assert client.get("/api/runs/one").json()["run"]["state"] in {"cancelled", "finished"}
    assert client.delete("/api/runs/one").status_code == 204
    assert client.get("/api/runs/one").status_code == 404
    assert client.get("/api/runs").json()["total"] == 0


def test_a_queued_run_has_a_position_and_can_be_cancelled(client, daemon):
    first = submit(client)
    wait_for(daemon, first["id"], RunState.RUNNING)
    low, high = submit(client, name="low"), submit(client, name="high", priority=5)
    assert client.get("/api/runs/high").json()["run"]["queue_position"] == 1
    assert client.get("/api/runs/low").json()["run"]["queue_position"] == 2
    assert client.post(f"/api/runs/{high['id']}/cancel", json={}).json()["run"]["state"] == "cancelled"
    assert client.post(f"/api/runs/{high['id']}/cancel", json={}).status_code == 409
    assert client.get("/api/runs/low").json()["run"]["queue_position"] == 1
    assert client.post(f"/api/runs/{low['id']}/stop", json={}).json()["run"]["state"] == "cancelled"
    assert client.post("/api/runs/low/retry", json={}).json()["run"]["state"] == "queued"


def test_all_errors_of_a_request_are_returned_and_nothing_is_created(client, daemon):
    reply = client.post(
        "/api/runs", json={"kind": "nap", "name": "a/b", "executor": "cloud", "config": {"x": 1, "y": 2}}
    )
    assert reply.status_code == 422
    assert [field["key"] for field in reply.json()["error"]["fields"]] == ["name", "executor", "x", "y"]
    native = client.post("/api/runs", json={"recipe": "cartpole", "config": {"ppo": {"gamma": 7}, "totl_steps": 1}})
    assert sorted(field["key"] for field in native.json()["error"]["fields"]) == ["ppo.gamma", "totl_steps"]
    assert client.post("/api/runs", json={"kind": "nobody"}).json()["error"]["fields"][0]["key"] == "kind"
    assert client.get("/api/runs").json()["total"] == 0
    assert [path.name for path in daemon.root.iterdir()] == [".palaestra"]


def test_the_same_request_twice_makes_two_runs(client):
    assert submit(client)["id"] != submit(client)["id"]
    assert client.get("/api/runs").json()["total"] == 2


def test_a_clone_overrides_settings_and_has_a_parent(client, daemon):
    source = submit(client, config={"seconds": 60, "seed": 3})
    clone = client.post(f"/api/runs/{source['id']}/clone", json={"config": {"seconds": 50}, "name": "copy"}).json()[
        "run"
    ]
    assert (clone["name"], clone["parent"], clone["seed"]) == ("copy", source["id"], 3)
    assert read_request(daemon.directory("copy")).config == {"seconds": 50, "seed": 3}
    again = client.post("/api/rerun", json={}).json()["run"]
    assert read_request(daemon.directory(again["id"])).config == {"seconds": 50, "seed": 3}


def test_rerun_without_a_previous_request_is_a_conflict(client):
    assert client.post("/api/rerun", json={}).status_code == 409


def test_an_evaluation_never_takes_paths(client, make_run):
    run = make_run("first")
    assert client.post("/api/runs/nobody/evaluate", json={}).status_code == 404
    for selector in ("../x", "/etc/passwd", "", "1.5"):
        assert client.post(f"/api/runs/{run.id}/evaluate", json={"selector": selector}).status_code == 422
    for suite in ("/etc/x.yaml", "../x", "a/b", "~/x"):
        assert client.post(f"/api/runs/{run.id}/evaluate", json={"suite": suite}).status_code == 422


def test_an_evaluation_is_a_run_with_a_parent(client, daemon, make_run, save_checkpoint):
    run = make_run("first")
    save_checkpoint(run)
    submit(client)  # takes the only place, so that the evaluation stays in the queue
    made = client.post(f"/api/runs/{run.id}/evaluate", json={"selector": "best", "episodes": 2}).json()["run"]
    assert (made["kind"], made["parent"], made["state"]) == ("evaluate", run.id, "queued")
    assert made["recipe"] == "first:best"  # by name; the id is in its config
    assert read_request(daemon.directory(made["id"])).config["episodes"] == 2


def test_an_evaluation_accepts_a_seed_and_records_replays(client, daemon, make_run, save_checkpoint):
    run = make_run("first")
    save_checkpoint(run)
    submit(client)  # takes the only place
    made = client.post(f"/api/runs/{run.id}/evaluate", json={"seed": 0, "replays": True}).json()["run"]
    requested = read_request(daemon.directory(made["id"])).config
    assert (requested["seed"], requested["replays"]) == (0, True)
    plain = client.post(f"/api/runs/{run.id}/evaluate", json={}).json()["run"]
    assert {"seed", "replays"} & set(read_request(daemon.directory(plain["id"])).config) == set()
    assert client.post(f"/api/runs/{run.id}/evaluate", json={"seed": -1}).status_code == 422


def test_tags_and_notes_are_stored_and_searchable(client, make_run):
    run = make_run("first")
    make_run("second")
    reply = client.patch(f"/api/runs/{run.id}", json={"tags": ["b", "a", "a"], "note": "a <b>note</b>"})
    assert reply.json()["run"]["tags"] == ["a", "b"]
    assert reply.json()["run"]["note"] == "a <b>note</b>"
    assert client.patch(f"/api/runs/{run.id}", json={"note": "other"}).json()["run"]["tags"] == ["a", "b"]
    assert [one["name"] for one in client.get("/api/runs?tag=a&tag=b").json()["runs"]] == ["first"]
    assert client.get("/api/runs?tag=a&tag=c").json()["total"] == 0
    assert client.patch(f"/api/runs/{run.id}", json={"tags": ["\x1b[31m"]}).status_code == 422


def test_only_a_queued_run_can_change_its_priority(client, make_run):
    run = make_run("first")
    reply = client.patch(f"/api/runs/{run.id}", json={"priority": 5})
    assert reply.status_code == 409
    assert "Only a run in the queue" in reply.text
    assert client.patch(f"/api/runs/{run.id}", json={"priority": 1001}).status_code == 422


@pytest.mark.fault("G11")
def test_a_full_disk_is_507_and_a_full_queue_503(client, daemon, monkeypatch):
    def refuse(error):
        def submit(request, options=None):
            raise error

        return submit

    monkeypatch.setattr(daemon, "submit", refuse(StoreRefused("no room", "make some")))
    reply = client.post("/api/runs", json=NAP)
    assert (reply.status_code, reply.json()["error"]["hint"]) == (507, "make some")
    monkeypatch.setattr(daemon, "submit", refuse(QueueFull("too many")))
    assert client.post("/api/runs", json=NAP).status_code == 503


@pytest.mark.fault("G11")
def test_a_full_index_is_507_and_runs_are_still_listed(client, daemon):
    daemon._run_table._index.limit_pages(1)
    text = json.dumps({"x": "y" * 15_000})
    answers = [client.post("/api/runs", json={**NAP, "command": text}).status_code for _ in range(8)]
    assert answers[-1] == 507
    assert set(answers) <= {201, 507}
    assert client.get("/api/runs").status_code == 200


def test_the_diff_lists_differences_of_two_configs(client, make_run):
    here = make_run("here", config={"seed": 1, "ppo": {"gamma": 0.9, "clip": 0.2}, "only": None})
    there = make_run("there", config={"seed": 1, "ppo": {"gamma": 0.99, "clip": 0.2}, "more": [1]})
    reply = client.get("/api/runs/here/diff?other=there").json()
    assert (reply["here"], reply["there"]) == (here.id, there.id)
    assert reply["differences"] == [
        {"key": "more", "here": None, "there": [1], "only": "there"},
        {"key": "only", "here": None, "there": None, "only": "here"},
        {"key": "ppo.gamma", "here": 0.9, "there": 0.99, "only": ""},
    ]


def test_the_diff_of_a_run_with_itself_is_empty(client, make_run):
    make_run("here")
    assert client.get("/api/runs/here/diff?other=here").json()["differences"] == []


def test_the_diff_with_an_unknown_run_is_404(client, make_run):
    make_run("here")
    assert client.get("/api/runs/here/diff?other=nobody").status_code == 404
    assert client.get("/api/runs/here/diff").status_code == 422
    make_run("broken").config_file.write_text("[")
    assert client.get("/api/runs/here/diff?other=broken").status_code == 409
