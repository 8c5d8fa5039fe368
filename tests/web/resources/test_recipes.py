from __future__ import annotations

import pytest

from palaestra.config.keys import config_json_schema, list_keys
from palaestra.config.recipes.registry import find_recipe, recipe_names
from palaestra.config.train import TrainConfig
from palaestra.web.resources.recipes import default_values, list_schema_keys


def test_recipes_are_listed_with_missing_extras(client):
    listed = {recipe["name"]: recipe for recipe in client.get("/api/recipes").json()["recipes"]}
    assert sorted(listed) == recipe_names()
    assert listed["cartpole"]["env"] == "CartPole-v1"
    assert listed["cartpole"]["missing_extra"] is None


def test_a_form_has_the_schema_and_the_values_of_the_recipe(client):
    form = client.get("/api/kinds/native/form?recipe=walker2d").json()
    assert form["schema"] == config_json_schema()
    assert form["defaults"] == find_recipe("walker2d").config.model_dump(mode="json")
    keys = {key["key"]: key for key in form["keys"]}
    assert keys["total_steps"]["default"] == form["defaults"]["total_steps"]


def test_a_form_has_the_values_of_the_recipe_for_the_algorithm_that_is_asked_for(client):
    form = client.get("/api/kinds/native/form?recipe=pendulum&algorithm=sac").json()
    assert form["defaults"] == find_recipe("pendulum").variants["sac"].model_dump(mode="json")
    assert client.get("/api/kinds/native/form?recipe=pendulum&algorithm=sag").status_code == 422


def test_a_form_takes_defaults_from_a_run(client, daemon):
    run = client.post("/api/runs", json={"kind": "nap", "config": {"seconds": 40, "seed": 9}}).json()["run"]
    assert client.get(f"/api/kinds/nap/form?run={run['id']}").json()["defaults"] == {"seconds": 40, "seed": 9}


def test_a_kind_with_required_settings_shows_the_defaults_of_its_schema(client):
    form = client.get("/api/kinds/evaluate/form").json()
    assert form["defaults"]["repeat"] is False
    assert "target" in {key["key"] for key in form["keys"]}


def test_unknown_recipes_kinds_and_runs_are_refused(client):
    assert client.get("/api/kinds/nobody/form").status_code == 404
    assert client.get("/api/kinds/native/form?recipe=carpole").status_code == 422
    assert client.get("/api/kinds/native/form?run=nobody").status_code == 404


SCRIPT = '''
from dataclasses import dataclass


@dataclass
class Args:
    env_id: str = "CartPole-v1"
    """the environment"""
    learning_rate: float = 0.25
    target_kl: float = None
'''


def test_the_form_of_a_script_has_its_arguments(client, tmp_path):
    before = client.get("/api/kinds/cleanrl/form").json()
    assert "learning_rate" not in before["schema"]["properties"]
    script = tmp_path / "small.py"
    script.write_text(SCRIPT)
    form = client.get("/api/kinds/cleanrl/form", params={"script": str(script)}).json()
    found = {name: form["defaults"][name] for name in ("script", "env_id", "learning_rate", "target_kl")}
    assert found == {"script": str(script), "env_id": "CartPole-v1", "learning_rate": 0.25, "target_kl": None}
    assert form["schema"]["properties"]["env_id"]["description"] == "the environment"


def test_a_missing_script_is_named(client, tmp_path):
    reply = client.get("/api/kinds/cleanrl/form", params={"script": str(tmp_path / "none.py")})
    assert reply.status_code in {404, 422}
    assert "none.py" in reply.json()["error"]["message"]


def test_scripts_of_a_scanned_checkout_are_listed(client, tmp_path):
    assert client.get("/api/kinds/cleanrl/checkouts").json() == {"checkouts": []}
    (tmp_path / "ppo.py").write_text(SCRIPT)
    reply = client.post("/api/kinds/cleanrl/checkouts", json={"path": str(tmp_path)})
    assert reply.status_code == 200
    ((checkout),) = reply.json()["checkouts"]
    assert checkout["path"] == str(tmp_path)
    assert {
        "path": str(tmp_path / "ppo.py"),
        "name": "ppo.py",
        "algorithm": "PPO",
        "actions": "discrete",
        "missing_packages": [],
    } in (checkout["scripts"])
    assert client.get("/api/kinds/cleanrl/checkouts").json() == reply.json()


@pytest.mark.parametrize(
    ("kind", "path", "status"),
    [("cleanrl", "/nowhere/at/all", 404), ("cleanrl", "a\0b", 400), ("cleanrl", "", 422), ("native", "/tmp", 404)],
)
def test_an_invalid_checkout_is_refused(client, kind, path, status):
    assert client.post(f"/api/kinds/{kind}/checkouts", json={"path": path}).status_code == status


def test_a_folder_without_scripts_is_refused(client, tmp_path):
    (tmp_path / "empty").mkdir()
    reply = client.post("/api/kinds/cleanrl/checkouts", json={"path": str(tmp_path / "empty")})
    assert reply.status_code == 422
    assert "No script that takes an env_id" in reply.json()["error"]["message"]


def test_the_keys_of_a_training_are_those_of_its_config():
    config = TrainConfig()
    found = {key["key"]: key for key in list_schema_keys(config_json_schema(), config.model_dump(mode="json"))}
    leaves = {key.path: key for key in list_keys(TrainConfig) if not key.is_section}
    assert set(leaves) <= set(found)
    assert found["ppo.gamma"]["default"] == config.ppo.gamma
    assert {path: found[path]["help"] for path in leaves} == {path: key.description for path, key in leaves.items()}
    chosen = {path: list(key.choices) for path, key in leaves.items() if key.choices and "true" not in key.choices}
    assert {path: found[path]["choices"] for path in chosen} == chosen
    assert found["ppo.gamma"]["limits"] == ">= 0, <= 1"


def test_null_and_union_types_are_described():
    schema = {"properties": {"a": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}, "b": {}}}
    first, second = list_schema_keys(schema, {"a": None})
    assert (first["type"], first["limits"], first["default"]) == ("integer or null", ">= 1", None)
    assert second["type"] == "any"


def test_a_recursive_schema_terminates():
    schema = {
        "$defs": {"N": {"properties": {"next": {"$ref": "#/$defs/N"}}}},
        "properties": {"n": {"$ref": "#/$defs/N"}},
    }
    assert len(list_schema_keys(schema, {})) == 1


def test_default_values_come_from_the_schema():
    schema = {"$defs": {"D": {"default": 2}}, "properties": {"a": {"default": 1}, "b": {"$ref": "#/$defs/D"}, "c": {}}}
    assert default_values(schema) == {"a": 1, "b": 2, "c": None}
