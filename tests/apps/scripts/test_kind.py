from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.apps.scripts.kind import KIND, PLAIN_KIND, launch_schema, script_schema
from palaestra.apps.scripts.packages import SWITCHES
from palaestra.apps.scripts.script import read_script
from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import RequestRefused, Resources

PPO = Path(__file__).parent / "scripts" / "ppo.py"
MACHINE = Resources(cpus=4, gpus=1)


def prepare(kind=KIND, machine=MACHINE, **config):
    return kind.prepare(RunRequest(kind.name, "", config), machine, Path("runs"))


def refused(kind=KIND, **config):
    with pytest.raises(RequestRefused) as caught:
        prepare(kind, **config)
    return {one.key: str(one) for one in caught.value.field_errors}


def test_without_settings_the_script_gets_no_words_at_all():
    prepared = prepare(script=str(PPO))
    assert prepared.config["argv"] == []
    assert prepared.config["settings"]["target_kl"] is None
    assert prepared.config["settings"]["track"] is False
    assert prepared.total_steps == 2048


def test_settings_become_words_and_the_script_is_known_for_ever(monkeypatch):
    monkeypatch.chdir(PPO.parent)
    prepared = prepare(script="ppo.py", total_timesteps=1e5, cuda=False)
    assert prepared.config["argv"] == ["--no-cuda", "--total-timesteps", "100000"]
    assert prepared.request.config["script"] == str(PPO)
    assert prepared.request.recipe == "ppo"
    assert prepared.total_steps == 100_000


def test_a_card_is_taken_only_where_there_is_one_and_it_is_wanted():
    assert prepare(script=str(PPO)).resources == Resources(1, 1)
    assert prepare(script=str(PPO), cuda=False).resources == Resources(1, 0)
    assert prepare(script=str(PPO), machine=Resources(4, 0)).resources == Resources(1, 0)


def test_all_errors_are_reported_at_once():
    errors = refused(script=str(PPO), learning_rat=1, num_envs="many", batch_size=3, save_seconds=-1)
    assert set(errors) == {"learning_rat", "num_envs", "batch_size", "save_seconds"}
    assert "Did you mean 'learning_rate'?" in errors["learning_rat"]


def test_a_script_must_be_named_and_be_there():
    assert "needs the path of a script" in refused()["script"]
    assert "no script" in refused(script="/nowhere/ppo.py")["script"]


def test_a_package_that_the_interpreter_lacks_is_named(tmp_path):
    script = tmp_path / "ppo_jax.py"
    script.write_text("import surely_not_jax\nclass Args:\n    env_id: str = 'X'\n")
    assert "needs surely_not_jax" in refused(script=str(script))["python"]


def test_a_missing_package_is_exit_code_4_and_a_wrong_value_is_2(tmp_path):
    script = tmp_path / "ppo_jax.py"
    script.write_text("import surely_not_jax\nclass Args:\n    env_id: str = 'X'\n")
    for config, code in (({}, 4), ({"save_seconds": -1}, 2), ({"unknown": 1}, 2)):
        with pytest.raises(RequestRefused) as caught:
            prepare(script=str(script), **config)
        assert caught.value.exit_code == code


def test_what_is_imported_only_on_demand_is_missed_only_on_demand(monkeypatch):
    monkeypatch.setitem(SWITCHES, "track", "surely_not_wandb")
    assert prepare(script=str(PPO)).config["argv"] == []
    assert "needs surely_not_wandb" in refused(script=str(PPO), track=True)["python"]


@pytest.mark.parametrize("name", ["ALE/Pong-v5", "BreakoutNoFrameskip-v4"])
def test_a_game_is_missed_before_anything_starts(name, monkeypatch):
    monkeypatch.setattr("palaestra.apps.scripts.packages.find_spec", lambda package: package != "ale_py" or None)
    assert "needs ale_py" in refused(script=str(PPO), env_id=name)["python"]
    assert prepare(script=str(PPO), env_id="CartPole-v1").total_steps == 2048


def test_a_script_without_arguments_is_only_run_as_a_plain_script(tmp_path):
    script = tmp_path / "plain.py"
    script.write_text("print(1)\n")
    assert "no Args class" in refused(script=str(script))["script"]
    prepared = prepare(PLAIN_KIND, script=str(script), some_key="value")
    assert prepared.config["argv"] == ["--some-key", "value"]


def test_the_schema_has_the_arguments_of_the_script_that_is_named():
    assert "num_envs" in KIND.schema_of({"script": str(PPO)})["properties"]
    assert "num_envs" not in KIND.schema()["properties"]


def test_a_daemon_can_load_it_without_torch_or_gymnasium():
    program = "import sys, palaestra.apps.scripts.kind; print({'torch', 'gymnasium'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_worker_is_started_on_the_directory():
    assert KIND.command(Path("/runs/x"))[-2:] == ["palaestra.apps.scripts.worker", "/runs/x"]


PPO_SCRIPT = Path(__file__).parent / "scripts" / "ppo.py"


def test_the_form_of_a_script_has_its_arguments_after_our_own_settings():
    properties = script_schema(read_script(PPO_SCRIPT))["properties"]
    assert list(properties)[:2] == ["script", "python"]
    assert properties["target_kl"] == {
        "type": ["number", "null"],
        "description": "the target KL divergence threshold",
        "default": None,
    }
    assert properties["track"]["default"] is False
    assert "batch_size" not in properties


def test_unknown_keys_are_only_allowed_while_no_script_is_named():
    assert launch_schema()["additionalProperties"] is True
    assert script_schema(read_script(PPO_SCRIPT))["additionalProperties"] is False
