import json

import pytest

from palaestra.cli.from_trial import read_words_from_trial
from palaestra.config.sweep import SweepConfig
from palaestra.core.errors import UsageError
from palaestra.runs.documents import read_request
from palaestra.runs.store import RunStore, runs_root
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.store import SweepStore
from palaestra.sweeps.trial import Trial, TrialState


@pytest.fixture
def lr(workplace):
    asked = SweepConfig(
        name="lr",
        recipe="cartpole",
        parameters={"ppo.learning_rate": "1e-3,1e-2"},
        settings={"total_steps": 256, "ppo.gamma": 0.9},
    )
    plan = plan_sweep(asked)
    trials = [Trial(1, plan.listed[0], TrialState.FINISHED, 5.0), Trial(2, plan.listed[1], TrialState.FINISHED, 9.0)]
    SweepStore(runs_root()).enter(plan.config).write_trials(trials)


def test_a_trials_settings_are_taken_over_and_what_is_typed_wins(lr):
    words, trial = read_words_from_trial(["sweep=lr", "run=more", "total_steps=512", "ppo.clip=0.1"], "best")
    assert trial == "lr:2"
    assert (words.recipe, words.run) == ("cartpole", "more")
    assert words.overrides == {"total_steps": 512, "ppo": {"learning_rate": 1e-2, "gamma": 0.9, "clip": 0.1}}


def test_a_key_inside_a_tried_one_replaces_it(lr):
    words, _ = read_words_from_trial(["ppo.learning_rate.start=0.5"], "lr:1")
    assert words.overrides["ppo"] == {"gamma": 0.9, "learning_rate": {"start": 0.5}}


def test_another_recipe_is_refused(lr):
    with pytest.raises(UsageError, match="trained 'cartpole', not 'acrobot'"):
        read_words_from_trial(["acrobot"], "best")
    with pytest.raises(UsageError, match="'sweep' is set twice"):
        read_words_from_trial(["sweep=a", "sweep=b"], "best")


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
