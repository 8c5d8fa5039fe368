from __future__ import annotations

import pytest

from palaestra.core.run import RunState
from palaestra.runs.status import read_written_record, write_record
from palaestra.web.resources.run_list import group_name, spread_of


@pytest.fixture
def make_seed(make_run, daemon):
    """`make_seed("a-1", 1, steps=10, score=3.0)`: a finished run of a configuration with that seed."""

    def make(name, seed, steps=10, **summary):
        directory = make_run(name, config={"seed": seed, "total_steps": steps})
        record = read_written_record(directory)
        changes = {**vars(record), "state": RunState.FINISHED, "summary": summary}
        write_record(directory, type(record)(**changes))
        daemon._supervisor.scan_all()
        return directory.id

    return make


def groups(client, query=""):
    return client.get(f"/api/run-groups?{query}").json()


def test_the_list_is_filtered_sorted_and_paged(client, make_run):
    for name in ("Carl", "anna", "Berta"):
        make_run(name)

    def names(query):
        reply = client.get(f"/api/runs?{query}").json()
        return [run["name"] for run in reply["runs"]], reply["total"]

    assert names("") == (["Berta", "anna", "Carl"], 3)
    assert names("sort=name&order=asc") == (["anna", "Berta", "Carl"], 3)
    assert names("limit=1&offset=1") == (["anna"], 3)
    assert names("search=ERTA") == (["Berta"], 1)
    assert names("search=cartpole&kind=native&state=queued&state=running") == (["Berta", "anna", "Carl"], 3)
    assert names("state=failed") == ([], 0)
    assert names("kind=nap") == ([], 0)
    assert names("sort=return&order=desc") == (["Berta", "anna", "Carl"], 3)
    assert client.get("/api/runs?state=sleeping").status_code == 422
    assert client.get("/api/runs?sort=size").status_code == 422
    assert client.get("/api/runs?limit=0").status_code == 422


def test_the_list_contains_the_sequence_to_follow_from(client):
    before = client.get("/api/runs").json()
    assert client.post("/api/runs", json={"kind": "nap"}).status_code == 201
    after = client.get("/api/runs").json()
    assert after["sequence"] > before["sequence"]
    assert before["boot"] == after["boot"]


def test_runs_that_differ_only_in_the_seed_are_one_group_with_statistics(client, make_seed):
    ids = [make_seed(f"wide-{seed}", seed, score=float(seed), episodic_return=10.0 * seed) for seed in (1, 2, 3)]
    other = make_seed("alone", 1, steps=20)
    found = groups(client)
    assert (found["total"], found["run_total"]) == (2, 4)
    alone, wide = found["groups"]
    assert (alone["name"], alone["ids"], alone["seed_count"]) == ("alone", [other], 1)
    assert (alone["returns"], alone["scores"]) == (None, None)
    assert (wide["name"], wide["ids"], wide["seed_count"]) == ("wide", ids[::-1], 3)
    assert wide["scores"] == {"mean": 2.0, "low": 1.0, "high": 3.0, "count": 3}
    assert wide["returns"] == {"mean": 20.0, "low": 10.0, "high": 30.0, "count": 3}
    assert wide["states"] == {"finished": 3}
    assert wide["first"]["id"] == ids[-1]


def test_repeated_seeds_count_once(client, make_seed):
    for number in range(5):
        make_seed(f"copy-{number}", 1)
    (group,) = groups(client)["groups"]
    assert (len(group["ids"]), group["seed_count"]) == (5, 1)


def test_statistics_of_a_group_do_not_depend_on_the_page(client, make_seed):
    for seed in range(1, 5):
        make_seed(f"one-{seed}", seed, score=1.0 * seed)
        make_seed(f"two-{seed}", seed, steps=20, score=10.0 * seed)
    whole = groups(client)["groups"]
    pages = [groups(client, f"limit=1&offset={offset}") for offset in (0, 1, 2)]
    assert [page["groups"] for page in pages] == [whole[:1], whole[1:], []]
    assert {page["total"] for page in pages} == {2}


def test_the_runs_of_a_group_and_runs_by_id_are_listed(client, make_seed):
    ids = [make_seed(f"one-{seed}", seed) for seed in (1, 2, 3)]
    make_seed("other", 1, steps=20)
    key = client.get(f"/api/runs/{ids[0]}").json()["run"]["group"]

    def listed(query):
        return [run["id"] for run in client.get(f"/api/runs?{query}").json()["runs"]]

    assert listed(f"group={key}&order=asc") == ids
    assert listed(f"run={ids[2]}&run={ids[0]}&run=nobody&order=asc") == [ids[0], ids[2]]
    assert client.get("/api/runs", params={"run": ["x"] * 201}).status_code == 422


def test_more_than_1000_runs_are_read_by_offset(client, daemon, make_run, monkeypatch):
    entry = daemon.get(make_run("first").id)
    monkeypatch.setattr(daemon, "runs", lambda: [entry] * 1100)
    assert client.get("/api/runs?limit=1100").status_code == 422
    pages = [client.get(f"/api/runs?limit=100&offset={offset}").json() for offset in (0, 1000, 1100)]
    assert [len(page["runs"]) for page in pages] == [100, 100, 0]
    assert {page["total"] for page in pages} == {1100}


def test_a_group_is_named_by_the_common_prefix():
    assert group_name(["wide-1", "wide-2"], "cartpole") == "wide"
    assert group_name(["otter", "heron"], "cartpole") == "cartpole"
    assert group_name(["swift-otter-7"], "cartpole") == "swift-otter-7"


def test_a_spread_ignores_missing_values_but_not_zero():
    assert spread_of([1.0, None, 3.0, float("nan")]) == {"mean": 2.0, "low": 1.0, "high": 3.0, "count": 2}
    assert spread_of([0.0, 4.0]) == {"mean": 2.0, "low": 0.0, "high": 4.0, "count": 2}
    assert spread_of([None, float("inf")]) is None
