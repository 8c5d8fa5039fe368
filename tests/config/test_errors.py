from __future__ import annotations

import pytest
from pydantic import ValidationError

from palaestra.config.errors import describe_errors, field_errors_of, nearest_key
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig
from palaestra.core.errors import MissingExtra, UsageError
from palaestra.core.worker_kind import FieldError

KNOWN = ["seed", "ppo.gamma", "ppo.clip", "ppo.clip.start", "env.seed_offset", "total_steps", "total_ste_clip"]


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [
        ("ppo.gama", "ppo.gamma"),  # a sibling goes before anything else
        ("gamma", "ppo.gamma"),  # the same last word elsewhere
        ("totalsteps", "total_steps"),
        ("gmma", "ppo.gamma"),  # a similar last word elsewhere
        ("total_ste.clip", "ppo.clip"),  # the same last word goes before a similar whole
        ("xyz", ""),
    ],
)
def test_the_nearest_key_is_the_one_that_was_most_likely_meant(unknown, meant):
    assert nearest_key(unknown, KNOWN) == meant


def test_every_mistake_becomes_a_message_with_the_key_in_it():
    with pytest.raises(ValidationError) as caught:
        TrainConfig.model_validate({"total_steps": "many", "nope": 1, "ppo": {"gamma": 7}, "env": {"id": ""}})
    messages = [message for message, _ in describe_errors(TrainConfig, caught.value)]
    assert len(messages) == 4
    assert all(any(key in message for message in messages) for key in ("total_steps", "nope", "ppo.gamma", "env.id"))


def test_an_unknown_algorithm_is_refused_with_the_list_of_those_that_exist():
    with pytest.raises(UsageError) as refusal:
        resolve_config(TrainConfig, None, {"algorithm": "a3c"})
    assert refusal.value.message == "Invalid value for algorithm: 'a3c' (available: ppo, pqn, dqn, sac, td3)."
    assert resolve_config(TrainConfig, None, {"algorithm": "ppo"}) == TrainConfig()


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(ValidationError) as caught:
        TrainConfig.model_validate({"seed": "x" * 5000})
    ((message, _),) = describe_errors(TrainConfig, caught.value)
    assert len(message) < 300


def test_reasons_are_told_in_our_words_and_not_in_those_of_pydantic():
    wrong = {
        "total_steps": -1,
        "seed": "x",
        "device": "tpu",
        "ppo": {"gamma": 7, "learning_rate": "fast", "normalize_returns": "perhaps", "minibatch_size": 1.5},
        "env": 5,
    }
    with pytest.raises(ValidationError) as caught:
        TrainConfig.model_validate(wrong)
    messages = " ".join(message for message, _ in describe_errors(TrainConfig, caught.value))
    assert "(must be at least 1)" in messages
    assert "(must be at most 1)" in messages
    assert "(must be a whole number)" in messages
    assert "Invalid value for device: 'tpu' (available: auto, cpu, cuda)." in messages
    assert not any(words in messages for words in ("Input", "should", "parse", "a valid "))


@pytest.mark.parametrize(("typed", "ours"), [("n_envs", "ppo.env_count"), ("algo", "Algorithms: ppo")])
def test_a_setting_by_another_trainers_name_is_refused_with_ours(typed, ours):
    with pytest.raises(UsageError, match=f"'{typed}'.*{ours}"):
        resolve_config(TrainConfig, None, {typed: 8})


@pytest.mark.parametrize(
    ("algorithm", "ours"),
    [("ppo", "ppo.learning_rate"), ("dqn", "dqn.learning_rate"), ("sac", "sac.learning_rate")],
)
def test_the_algorithm_that_is_chosen_decides_which_name_of_ours_is_given(algorithm, ours):
    with pytest.raises(UsageError, match=f"'lr'.*this is called {ours}\\."):
        resolve_config(TrainConfig, None, {"algorithm": algorithm, "lr": 1e-3})


def test_a_setting_in_the_wrong_section_by_another_trainers_name_is_refused_with_ours():
    with pytest.raises(UsageError, match="'ppo.n_steps'.*ppo.horizon"):
        resolve_config(TrainConfig, None, {"ppo": {"n_steps": 8}})


def test_each_mistake_stands_under_its_own_key():
    try:
        resolve_config(TrainConfig, None, {"total_steps": 0, "ppo": {"gama": 1, "env_count": "x"}})
    except UsageError as error:
        found = field_errors_of(error, TrainConfig)
    assert [one.key for one in found] == ["total_steps", "ppo.env_count", "ppo.gama"]
    assert found[2].hint == "Did you mean 'ppo.gamma'?"


def test_an_error_that_is_no_validation_keeps_its_words():
    assert field_errors_of(UsageError("No.", "Yes."), TrainConfig, "recipe") == [FieldError("recipe", "No.", "Yes.")]


def test_a_missing_extra_keeps_its_exit_code():
    assert field_errors_of(MissingExtra("'ALE/Pong-v5'", "atari"), TrainConfig, "env.id")[0].exit_code == 4


@pytest.mark.parametrize(("algorithm", "meant"), [("ppo", "ppo.learning_rate"), ("sac", "sac.learning_rate")])
def test_a_misspelt_key_is_sought_in_the_section_of_the_algorithm(algorithm, meant):
    with pytest.raises(UsageError, match=f"Did you mean '{meant}'"):
        resolve_config(TrainConfig, None, {"algorithm": algorithm, "leraning_rate": 1e-3})
