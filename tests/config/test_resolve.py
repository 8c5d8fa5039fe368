from __future__ import annotations

import importlib.util

import pytest

from palaestra.config.overrides import parse_overrides
from palaestra.config.recipes.classic import cartpole
from palaestra.config.resolve import build_request, merge, resolve_config, resolve_training
from palaestra.config.schedule import Schedule
from palaestra.config.train import TrainConfig
from palaestra.core.errors import MissingExtra, NotFound, UsageError

BASE = cartpole.config


def resolved(*words, base=BASE):
    return resolve_config(TrainConfig, base, parse_overrides(words))


def refusal(*words):
    with pytest.raises(UsageError) as caught:
        resolved(*words)
    return str(caught.value)


def test_nothing_overridden_is_the_recipe_itself():
    assert resolved() == BASE
    assert resolved(base=None) == TrainConfig()


def test_1e6_is_a_whole_number_and_one_and_a_half_is_not():
    steps = resolved("total_steps=1e6").total_steps
    assert steps == 1_000_000
    assert type(steps) is int
    assert "total_steps: 1.5 (must be a whole number)" in refusal("total_steps=1.5")


def test_only_the_leaf_that_was_named_changes():
    before, after = BASE.model_dump(), resolved("ppo.gamma=0.5").model_dump()
    before["ppo"]["gamma"] = 0.5
    assert after == before


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("totl_steps=5", "total_steps"),
        ("ppo.gama=0.9", "ppo.gamma"),
        ("ppo.total_steps=5", "total_steps"),
        ("env.kwarg={}", "env.kwargs"),
        ("logger.csv=true", "loggers"),
        ("loggers.wandb.projct=a", "loggers.wandb.project"),
        ("ppo.learning_rate.strat=1", "ppo.learning_rate.start"),
        ("leraning_rate=1", "ppo.learning_rate"),
        ("cheeckpoints=1", "checkpoints"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(word, meant):
    assert f"Did you mean '{meant}'?" in refusal(word)


def test_a_key_that_is_like_nothing_points_to_the_list():
    assert "palaestra config keys" in refusal("zzzz=1")


def test_all_errors_are_reported_at_once():
    said = refusal("totl_steps=5", "ppo.gamma=2", "seed=x", "loggers.wandb.mode=on")
    assert said.startswith("4 invalid settings")
    assert all(
        part in said
        for part in (
            "totl_steps",
            "ppo.gamma: 2 (must be at most 1)",
            "seed: 'x'",
            "loggers.wandb.mode: 'on'",
            "auto, online, offline",
        )
    )


@pytest.mark.parametrize("word", ["total_steps=true", "ppo.gamma=false", "env.max_episode_steps=true", "ppo.clip=true"])
def test_a_boolean_is_not_accepted_as_a_number(word):
    assert word.partition("=")[0] in refusal(word)


@pytest.mark.parametrize("word", ["ppo.gamma=.nan", "ppo.learning_rate=.inf", "total_steps=1e300", "total_steps=.inf"])
def test_nan_and_infinity_are_refused(word):
    assert "Invalid value for" in refusal(word)


def test_a_message_has_the_key_the_value_and_what_is_allowed():
    said = refusal("total_steps=0")
    assert "Invalid value for total_steps: 0 (must be at least 1)." in said
    assert "integer >= 1" in said
    assert "environment steps" in said


def test_a_rule_between_keys_is_told_with_what_would_work():
    assert "try minibatch_size=128" in refusal("ppo.minibatch_size=100")


def test_a_whole_section_cannot_be_a_number():
    assert "ppo is a section" in refusal("ppo=3")


def test_a_bare_number_makes_a_schedule_constant():
    assert BASE.ppo.learning_rate.kind == "linear"
    assert resolved("ppo.learning_rate=3e-4").ppo.learning_rate == Schedule(start=3e-4, end=0.0, kind="constant")


def test_start_alone_keeps_the_kind():
    assert resolved("ppo.learning_rate.start=3e-4").ppo.learning_rate == Schedule(start=3e-4, end=0.0, kind="linear")


def test_end_alone_makes_a_constant_schedule_linear_so_that_it_is_used():
    changed = resolved("ppo.entropy_coefficient.end=0.01").ppo.entropy_coefficient
    assert changed == Schedule(start=0.0, end=0.01, kind="linear")


def test_a_policy_by_name_or_by_module_replaces_the_other_and_its_settings_but_no_normaliser():
    base = resolved("policy.settings={hidden: [8]}", "policy.normalize_observations=true")
    other = resolved("policy=other", base=base).policy
    assert (other.graph, other.module, other.settings, other.normalize_observations) == ("other", None, {}, True)
    own = resolved("policy.module=mine:Net", base=base).policy
    assert (own.graph, own.module, own.settings) == (None, "mine:Net", {})
    assert resolved("policy=mlp", base=base).policy.settings == {"hidden": [8]}


def test_both_kinds_of_policy_at_once_are_refused():
    assert "not both" in refusal("policy.graph=mlp", "policy.module=mine:Net")


def test_another_environment_is_a_fresh_start_and_an_id_alone_is_not():
    base = resolved("env.kwargs.gravity=3", "env.max_episode_steps=9")
    fresh = resolved("env=Pendulum-v1", base=base).env
    assert (fresh.id, fresh.kwargs, fresh.max_episode_steps) == ("Pendulum-v1", {}, None)
    assert resolved("env.id=Pendulum-v1", base=base).env.kwargs == {"gravity": 3}


def test_two_configurations_from_one_recipe_share_nothing_that_can_change():
    """Trap 25: a shallow copy makes two evaluations the same environment."""
    base = resolved("env.kwargs={map: {size: 3}}")
    first, second = resolved(base=base), resolved("env.kwargs.map.size=5", base=base)
    first.env.kwargs["map"]["size"] = 99
    assert second.env.kwargs == {"map": {"size": 5}}
    assert base.env.kwargs == {"map": {"size": 3}}
    assert TrainConfig().env.kwargs == {}


def test_overrides_are_not_shared_with_the_result_either():
    overrides = {"env": {"kwargs": {"map": {"size": 3}}}}
    config = resolve_config(TrainConfig, None, overrides)
    overrides["env"]["kwargs"]["map"]["size"] = 99
    assert config.env.kwargs == {"map": {"size": 3}}


def test_merge_leaves_its_arguments_alone():
    base, over = {"a": {"b": 1}}, {"a": {"c": 2}}
    assert merge(None, base, over) == {"a": {"b": 1, "c": 2}}
    assert (base, over) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_what_is_handed_in_can_change_afterwards_without_changing_the_configuration():
    handed = {"env": {"kwargs": {"walls": [1]}}}
    config = resolve_config(TrainConfig, BASE, handed)
    handed["env"]["kwargs"]["walls"].append(2)
    assert config.env.kwargs == {"walls": [1]}


def test_merge_shares_nothing_with_the_base_even_where_a_section_is_replaced():
    base = BASE.model_dump()
    merged = merge(TrainConfig, base, {"env": "Pendulum-v1", "policy": {"module": "mine:Net"}, "ppo": {"clip": 0.1}})
    assert base == BASE.model_dump()
    merged["loggers"]["wandb"]["project"] = "changed"
    assert base == BASE.model_dump()


def test_a_request_keeps_what_was_asked_and_the_config_is_complete():
    request, config = build_request("cartpole", {"seed": 7}, name="first", submitted_by="cli", command="palaestra …")
    assert (request.recipe, request.name, request.config, request.kind) == ("cartpole", "first", {"seed": 7}, "native")
    assert config == cartpole.config.model_copy(update={"seed": 7})


def test_without_a_recipe_the_defaults_are_the_base():
    assert resolve_training("", {"seed": 7}) == TrainConfig(seed=7)


def test_an_unknown_recipe_is_told_with_the_nearest():
    with pytest.raises(NotFound, match="Did you mean 'cartpole'"):
        build_request("carpole", {})


def test_a_missing_extra_matters_when_running_and_not_when_looking(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "palaestra.config.recipes.registry.find_spec", lambda name: None if name == "mujoco" else real(name)
    )
    assert resolve_training("walker2d", {}).env.id == "Walker2d-v5"
    with pytest.raises(MissingExtra, match=r"palaestra\[mujoco\]") as caught:
        build_request("walker2d", {})
    assert caught.value.exit_code == 4


def test_a_wrong_setting_is_told_before_a_missing_extra(monkeypatch):
    monkeypatch.setattr("palaestra.config.recipes.registry.find_spec", lambda _name: None)
    with pytest.raises(UsageError, match="total_steps"):
        build_request("walker2d", {"totl_steps": 1})


@pytest.mark.parametrize(
    ("recipe", "settings", "message", "hint"),
    [
        ("cartpole", {"algorithm": "pqn", "dqn": {"prioritized": {"enabled": True}}}, "no replay buffer", "dqn"),
        (
            "cartpole",
            {"algorithm": "dqn", "dqn": {"n_step": 60}, "env": {"max_episode_steps": 50}},
            "dqn.n_step=60 is above env.max_episode_steps=50",
            "dqn.n_step=5",
        ),
    ],
)
def test_settings_with_which_nothing_is_learned_are_refused_with_what_to_change(recipe, settings, message, hint):
    with pytest.raises(UsageError) as caught:
        resolve_training(recipe, settings)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_settings_of_other_algorithms_contradict_nothing():
    assert resolve_training("pendulum", {"total_steps": 2_048, "td3": {"learning_starts": 10_000}}).algorithm == "ppo"
