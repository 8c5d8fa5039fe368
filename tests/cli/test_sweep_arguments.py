from __future__ import annotations

import json

import pytest

from palaestra.cli.sweep_arguments import parse_sweep_arguments, parse_trial_arguments
from palaestra.config.sweep import SweepConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.runs.documents import read_request
from palaestra.runs.store import RunStore, runs_root
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.store import SweepStore, Trial, TrialState

FILE = """
recipe: cartpole
method: random
trials: 7
seeds: 1..3
parameters:
  ppo.learning_rate: 1e-4..1e-2:log
  ppo.gamma: [0.98, 0.99]
settings:
  total_steps: 5e4
  ppo: {clip: 0.1}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rates.yaml"
    path.write_text(FILE)
    return path


def test_words_are_parted_into_what_is_tried_what_is_set_and_what_the_sweep_is_reported():
    tried = ["ppo.gamma=0.9,0.99", "ppo.clip=0.1..0.3"]
    reports = ["sweep=007", "trials=5", "seeds=1..2", "method=random", "executor=ray", "prune=true"]
    words = parse_sweep_arguments(["cartpole", *tried, "total_steps=1e4", *reports])
    assert words.executor == "ray"
    assert words.config == SweepConfig(
        name="007",
        recipe="cartpole",
        method="random",
        trials=5,
        seeds=(1, 2),
        prune=True,
        parameters={"ppo.gamma": "0.9,0.99", "ppo.clip": "0.1..0.3"},
        settings={"total_steps": 1e4},
    )


def test_a_file_says_the_same_as_words_and_names_the_sweep(file):
    words = parse_sweep_arguments([f"sweep={file}"])
    assert words.config == SweepConfig(
        name="rates",
        recipe="cartpole",
        method="random",
        trials=7,
        seeds=(1, 2, 3),
        parameters={"ppo.learning_rate": "1e-4..1e-2:log", "ppo.gamma": [0.98, 0.99]},
        settings={"total_steps": 5e4, "ppo.clip": 0.1},
    )


def test_words_go_before_the_file(file):
    config = parse_sweep_arguments(
        [f"sweep={file}", "acrobot", "ppo.gamma=0.9", "ppo.clip=0.1,0.2", "trials=2", "total_steps=10"]
    ).config
    assert (config.recipe, config.trials) == ("acrobot", 2)
    assert config.parameters == {"ppo.learning_rate": "1e-4..1e-2:log", "ppo.clip": "0.1,0.2"}
    assert config.settings == {"total_steps": 10, "ppo.gamma": 0.9}


def test_a_sweep_that_goes_on_keeps_what_it_was_requested():
    base = SweepConfig(name="lr", recipe="cartpole", trials=4, parameters={"ppo.gamma": "0.9..0.99"})
    assert parse_sweep_arguments(["trials=8"], base).config == base.model_copy(update={"trials": 8})
    assert parse_sweep_arguments([], base).config == base


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("methd=grid", "Did you mean 'method'?"),
        ("trials=3 trials=4", "'trials' is set twice"),
        ("trials=", "'trials=' has no value"),
        ("ppo.gamma=0.9,1 ppo.gamma=3", "set twice"),
        ("trials=0", "trials: 0"),
        ("seeds=5..1", "5 is above 1"),
        ("cartpole acrobot", "Expected one name"),
        ("ppo.gamma=0.9..0.8", "0.9 is above 0.8"),
        ("seeds=1,2 seed=1,2", "seeds and seed cannot both be set"),
    ],
)
def test_a_slip_is_refused_with_the_word(words, said):
    with pytest.raises(UsageError) as caught:
        parse_sweep_arguments(words.split())
    assert said in str(caught.value)


def test_a_file_that_is_missing_or_no_sweep_is_refused_by_name(tmp_path):
    with pytest.raises(NotFound, match="nowhere.yaml"):
        parse_sweep_arguments(["sweep=nowhere.yaml"])
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(UsageError, match="list.yaml does not describe a sweep"):
        parse_sweep_arguments([f"sweep={tmp_path / 'list.yaml'}"])
    (tmp_path / "slip.yaml").write_text("trails: 4\n")
    with pytest.raises(UsageError, match="Did you mean 'trials'"):
        parse_sweep_arguments([f"sweep={tmp_path / 'slip.yaml'}"])


@pytest.fixture
def lr(workplace):
    requested = SweepConfig(
        name="lr",
        recipe="cartpole",
        parameters={"ppo.learning_rate": "1e-3,1e-2"},
        settings={"total_steps": 256, "ppo.gamma": 0.9},
    )
    plan = plan_sweep(requested)
    trials = [Trial(1, plan.listed[0], TrialState.FINISHED, 5.0), Trial(2, plan.listed[1], TrialState.FINISHED, 9.0)]
    SweepStore(runs_root()).enter(plan.config).write_trials(trials)


def test_a_trials_settings_are_taken_over_and_what_is_typed_wins(lr):
    words, trial = parse_trial_arguments(["sweep=lr", "run=more", "total_steps=512", "ppo.clip=0.1"], "best")
    assert trial == "lr:2"
    assert (words.recipe, words.run) == ("cartpole", "more")
    assert words.overrides == {"total_steps": 512, "ppo": {"learning_rate": 1e-2, "gamma": 0.9, "clip": 0.1}}


def test_a_key_inside_a_tried_one_replaces_it(lr):
    words, _ = parse_trial_arguments(["ppo.learning_rate.start=0.5"], "lr:1")
    assert words.overrides["ppo"] == {"gamma": 0.9, "learning_rate": {"start": 0.5}}


def test_another_recipe_is_refused(lr):
    with pytest.raises(UsageError, match="trained 'cartpole', not 'acrobot'"):
        parse_trial_arguments(["acrobot"], "best")
    with pytest.raises(UsageError, match="'sweep' is set twice"):
        parse_trial_arguments(["sweep=a", "sweep=b"], "best")


def test_a_fresh_run_remembers_the_trial_it_comes_from(lr, call):
    code, out, err = call("train", "--from-trial", "best", "run=winner", "seed=7", "--json")
    assert code == 0, err
    assert json.loads(out)["agent_step"] == 256
    request = read_request(RunStore().resolve("winner"))
    assert "--from-trial lr:2" in request.command
    assert request.config["ppo"]["learning_rate"] == 1e-2


def test_a_sweep_that_is_not_there_is_not_found(call):
    assert call("train", "--from-trial", "best")[0] == 3
    assert call("train", "--from-trial", "nobody:1")[0] == 3
