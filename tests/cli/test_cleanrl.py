import json

from palaestra.apps.scripts.scan import known_checkouts
from palaestra.runs.store import RunStore


def test_a_scan_lists_scripts_and_what_is_wrong_with_others(call, tmp_path):
    (tmp_path / "ppo.py").write_text("class Args:\n    env_id: str = 'X'\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    code, out, err = call("cleanrl", "scan", str(tmp_path))
    assert code == 0
    assert "ppo.py" in out
    assert "broken.py" in err


def test_a_scan_can_be_read_by_programs(call, tmp_path):
    (tmp_path / "ppo.py").write_text("class Args:\n    env_id: str = 'X'\n")
    _, out, _ = call("cleanrl", "scan", str(tmp_path), "--json")
    found = {one["path"]: one["algorithm"] for one in json.loads(out)}
    assert found["ppo.py"] == "PPO"


def test_a_folder_that_is_not_there_is_named(call, tmp_path):
    code, _, err = call("cleanrl", "scan", str(tmp_path / "absent"))
    assert code == 3
    assert "absent" in err


def test_a_checkout_that_was_scanned_is_remembered_beside_the_runs(call, tmp_path):
    (tmp_path / "ppo.py").write_text("class Args:\n    env_id: str = 'X'\n")
    call("cleanrl", "scan", str(tmp_path))
    assert [str(path) for path in known_checkouts(RunStore().root)] == [str(tmp_path)]
