import json


def test_the_index_is_made_anew_from_the_runs(call, runs):
    home = runs / ".palaestra"
    home.mkdir()
    (home / "daemon.db").write_bytes(b"rubbish")
    code, out, err = call("repair")
    assert (code, out) == (0, "")
    assert "4 runs" in err or "3 runs" in err
    assert "is kept as" in err
    found = json.loads(call("repair", "--json")[1])
    assert found["waiting"] == 0
    assert found["runs"] >= 3


def test_a_run_that_cannot_be_read_is_named(call, runs):
    broken = next(path for path in runs.iterdir() if len(path.name) == 26)
    (broken / "status.json").write_text("{")
    _, _, err = call("repair")
    assert broken.name in err
