import json

from palaestra.config.keys import config_json_schema, list_keys
from palaestra.config.recipes.classic import cartpole
from palaestra.config.train import TrainConfig
from palaestra.config.yaml import parse_yaml


def test_all_keys_are_listed_and_run_is_one_of_them(call):
    paths = [key.path for key in list_keys(TrainConfig)]
    assert [row["key"] for row in json.loads(call("config", "keys", "--json")[1])] == ["run", *paths]
    assert len(call("config", "keys")[1].splitlines()) == len(paths) + 2
    assert all("ppo" in line for line in call("config", "keys", "ppo")[1].splitlines()[1:])


def test_a_recipe_is_shown_complete(call):
    assert TrainConfig.model_validate(parse_yaml(call("config", "show", "cartpole")[1])) == cartpole.config
    assert TrainConfig.model_validate_json(call("config", "show", "cartpole", "--json")[1]) == cartpole.config
    assert call("config", "show", "carpole")[0] == 3


def test_the_schema_is_the_schema(call):
    assert json.loads(call("config", "schema")[1]) == json.loads(json.dumps(config_json_schema()))


def test_an_action_is_needed(call):
    assert call("config")[0] == 2
