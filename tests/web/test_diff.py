from __future__ import annotations


def test_two_runs_differ_where_their_configs_do(client, make_run):
    here = make_run("here", config={"seed": 1, "ppo": {"gamma": 0.9, "clip": 0.2}, "only": None})
    there = make_run("there", config={"seed": 1, "ppo": {"gamma": 0.99, "clip": 0.2}, "more": [1]})
    answer = client.get("/api/runs/here/diff?other=there").json()
    assert (answer["here"], answer["there"]) == (here.id, there.id)
    assert answer["differences"] == [
        {"key": "more", "here": None, "there": [1], "only": "there"},
        {"key": "only", "here": None, "there": None, "only": "here"},
        {"key": "ppo.gamma", "here": 0.9, "there": 0.99, "only": ""},
    ]


def test_a_run_does_not_differ_from_itself(client, make_run):
    make_run("here")
    assert client.get("/api/runs/here/diff?other=here").json()["differences"] == []


def test_an_unknown_other_is_not_found(client, make_run):
    make_run("here")
    assert client.get("/api/runs/here/diff?other=nobody").status_code == 404
    assert client.get("/api/runs/here/diff").status_code == 422
    make_run("broken").config_file.write_text("[")
    assert client.get("/api/runs/here/diff?other=broken").status_code == 409
