import json

import pytest

from palaestra.config.keys import list_keys
from palaestra.config.recipes.classic import cartpole
from palaestra.config.train import TrainConfig
from palaestra.config.yaml import parse_yaml


def test_a_dry_run_prints_the_complete_configuration_and_makes_nothing(call, workplace):
    code, out, err = call("train", "cartpole", "--dry-run", "seed=9")
    assert (code, err) == (0, "")
    assert TrainConfig.model_validate(parse_yaml(out)) == cartpole.config.model_copy(update={"seed": 9})
    assert list(workplace.iterdir()) == []
    assert json.loads(call("train", "cartpole", "--dry-run", "seed=9", "--json")[1]) == parse_yaml(out)


def test_help_lists_every_key_with_the_recipes_values(call):
    code, out, _ = call("train", "cartpole", "-h")
    assert code == 0
    assert all(f"    {key.path}=" in out for key in list_keys(TrainConfig))
    assert "ppo.env_count=8" in out
    assert "ppo.env_count=4" in call("train", "-h")[1]


def test_training_gives_one_json_object_and_nothing_else_on_stdout(call, workplace):
    code, out, _ = call("train", "cartpole", "run=mine", "total_steps=256", "--json")
    result = json.loads(out)
    assert (code, result["exit_code"], result["name"], result["state"]) == (0, 0, "mine", "finished")
    assert result["agent_step"] == 256
    assert result["metrics"]
    assert (workplace / "runs" / result["run"]).is_dir()


def test_the_last_line_says_where_the_run_stands_and_what_to_do_next(call, workplace):
    code, out, err = call("train", "cartpole", "run=mine", "total_steps=256")
    assert (code, out) == (0, "")
    assert err.splitlines()[-1].startswith("'mine' is finished at step 256, return ")
    assert err.splitlines()[-1].endswith("Next: palaestra eval mine")
    assert "Next:" not in call("train", "cartpole", "run=other", "total_steps=256", "--quiet")[2]


def test_a_run_is_continued_with_its_own_settings(call, runs):
    arguments = ("train", "--resume", "run=first", "total_steps=1024", "--override", "total_steps", "--json")
    code, out, err = call(*arguments)
    assert code == 0, err
    assert json.loads(out)["agent_step"] == 1024
    assert json.loads(call("runs", "show", "first", "--json")[1])["config"]["seed"] == len("first")


def test_resuming_what_is_not_there_is_not_found(call):
    assert call("train", "--resume", "run=nobody")[0] == 3
    assert call("train", "cartpole", "--resume")[0] == 3


def test_a_different_configuration_is_refused_with_the_difference(call, runs):
    code, out, err = call("train", "cartpole", "run=first", "total_steps=512", "seed=77")
    assert (code, out) == (2, "")
    assert "seed" in err
    assert "77" in err


def test_an_override_of_an_unknown_key_is_refused(call):
    code, _, err = call("train", "cartpole", "--override", "totl_steps")
    assert code == 2
    assert "Did you mean 'total_steps'?" in err


@pytest.mark.parametrize("word", ["quiet=true", "resume=true", "runs_root=/tmp"])
def test_a_setting_is_never_taken_for_a_flag(call, word):
    code, _, err = call("train", "cartpole", word)
    assert code == 2
    assert "No key named" in err


def test_a_missing_extra_leaves_with_4_and_names_it(call, monkeypatch, workplace):
    monkeypatch.setattr("palaestra.config.recipes.registry.find_spec", lambda _name: None)
    code, _, err = call("train", "walker2d")
    assert code == 4
    assert "palaestra[mujoco]" in err
    assert list(workplace.iterdir()) == []


def test_two_different_counts_of_processes_are_refused(call):
    code, _, err = call("train", "cartpole", "--nproc", "2", "nproc=3")
    assert code == 2
    assert "--nproc 2 and nproc=3" in err


def test_an_executor_that_nobody_brings_is_not_found_and_leaves_nothing(call, tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_RUNS_DIR", str(tmp_path / "nowhere"))
    code, _, err = call("train", "cartpole", "executor=rai", "nproc=2")
    assert code == 3
    assert "Did you mean 'ray'?" in err
    assert not (tmp_path / "nowhere").exists()
