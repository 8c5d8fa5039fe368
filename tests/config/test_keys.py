from __future__ import annotations

import json

import pytest
from pydantic import BaseModel

from palaestra.config.keys import SCHEMA_DIALECT, KeyInfo, config_json_schema, list_keys, section_names
from palaestra.config.recipes.classic import cartpole
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig

KEYS = {key.path: key for key in list_keys(TrainConfig)}


def leaves(data, prefix=""):
    """The leaves of a dumped configuration: another way to the list of keys."""
    for name, value in data.items():
        is_section = isinstance(value, dict) and f"{prefix}{name}" not in {
            "env.kwargs",
            "policy.settings",
            "curriculum.tasks",
            "evaluation.simulations",
        }
        yield from leaves(value, f"{prefix}{name}.") if is_section else [f"{prefix}{name}"]


def test_every_leaf_of_the_configuration_is_a_key():
    assert {key.path for key in KEYS.values() if not key.is_section} == set(leaves(TrainConfig().model_dump()))


def test_every_key_says_what_it_means_and_what_it_takes():
    assert [key.path for key in KEYS.values() if not key.description or not key.type_text] == []


@pytest.mark.parametrize(
    ("path", "accepts"),
    [
        ("total_steps", "integer >= 1"),
        ("seed", "integer >= 0, < 2147483648"),
        ("env.max_episode_steps", "integer >= 1 or null"),
        ("ppo.gamma", "number >= 0, <= 1"),
        ("loggers.wandb.tags", "list of text"),
        ("loggers.wandb.mode", "auto | online | offline"),
        ("env.kwargs", "mapping"),
        ("ppo.learning_rate", "number"),
    ],
)
def test_what_a_key_accepts_is_said_in_plain_words(path, accepts):
    assert KEYS[path].accepts == accepts


def test_choices_are_what_completion_may_offer():
    assert KEYS["loggers.wandb.mode"].choices == ("auto", "online", "offline")
    assert KEYS["loggers.csv"].choices == ("true", "false")
    assert KEYS["total_steps"].choices == ()


def test_a_recipes_values_are_shown_as_defaults():
    shown = {key.path: key.default for key in list_keys(TrainConfig, cartpole.config)}
    assert shown["ppo.env_count"] == cartpole.config.ppo.env_count != KEYS["ppo.env_count"].default


def test_every_default_can_be_typed_back():
    for key in KEYS.values():
        if key.is_section or key.path.endswith(".end"):  # `end` alone makes a constant schedule linear
            continue
        nested = key.default
        for part in reversed(key.path.split(".")):
            nested = {part: nested}
        assert resolve_config(TrainConfig, None, nested) == TrainConfig(), key.path


def test_sections_are_the_nested_models():
    class Inner(BaseModel):
        leaf: int = 1

    class Outer(BaseModel):
        inner: Inner = Inner()
        other: int = 2

    assert section_names(Outer) == ["inner"]
    assert list_keys(Outer) == [KeyInfo("inner.leaf", "integer", 1, ""), KeyInfo("other", "integer", 2, "")]
    assert "ppo.learning_rate" in section_names(TrainConfig)


def properties(schema):
    yield schema.get("properties", {})
    for definition in schema.get("$defs", {}).values():
        yield definition.get("properties", {})


def test_the_schema_is_plain_json_and_names_its_dialect():
    schema = config_json_schema()
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$schema"] == SCHEMA_DIALECT


def test_every_field_is_described_and_has_its_default():
    for group in properties(config_json_schema()):
        for name, field in group.items():
            assert field.get("description"), name
    assert config_json_schema()["properties"]["total_steps"]["default"] == TrainConfig().total_steps


def test_unknown_keys_are_forbidden_in_every_section():
    schema = config_json_schema()
    assert schema["additionalProperties"] is False
    assert all(definition["additionalProperties"] is False for definition in schema["$defs"].values())


def test_no_key_has_the_name_of_a_class_as_its_type():
    """An optional section, such as a schedule that may be null, has the type of its short form."""
    types = {path: key.type_text for path, key in KEYS.items()}
    assert types["sac.critic_learning_rate"] == "number or null"
    assert not [path for path, text in types.items() if "<" in text]
