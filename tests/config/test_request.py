import importlib.util

import pytest

from palaestra.config.recipes.classic import cartpole
from palaestra.config.request import prepare_training, resolve_training
from palaestra.config.train import TrainConfig
from palaestra.core.errors import MissingExtra, NotFound, UsageError


def test_a_request_keeps_what_was_asked_and_the_config_is_complete():
    request, config = prepare_training("cartpole", {"seed": 7}, name="first", submitted_by="cli", command="palaestra …")
    assert (request.recipe, request.name, request.config, request.kind) == ("cartpole", "first", {"seed": 7}, "native")
    assert config == cartpole.config.model_copy(update={"seed": 7})


def test_without_a_recipe_the_defaults_are_the_base():
    assert resolve_training("", {"seed": 7}) == TrainConfig(seed=7)


def test_an_unknown_recipe_is_told_with_the_nearest():
    with pytest.raises(NotFound, match="Did you mean 'cartpole'"):
        prepare_training("carpole", {})


def test_a_missing_extra_matters_when_running_and_not_when_looking(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "palaestra.config.recipes.find.find_spec", lambda name: None if name == "mujoco" else real(name)
    )
    assert resolve_training("walker2d", {}).env.id == "Walker2d-v5"
    with pytest.raises(MissingExtra, match=r"palaestra\[mujoco\]") as caught:
        prepare_training("walker2d", {})
    assert caught.value.exit_code == 4


def test_a_wrong_setting_is_told_before_a_missing_extra(monkeypatch):
    monkeypatch.setattr("palaestra.config.recipes.find.find_spec", lambda _name: None)
    with pytest.raises(UsageError, match="total_steps"):
        prepare_training("walker2d", {"totl_steps": 1})
