from palaestra.config.keys import list_keys
from palaestra.config.schema import config_schema
from palaestra.config.train import TrainConfig
from palaestra.web.schema_keys import default_values, list_schema_keys


def test_the_keys_of_a_training_are_those_of_its_model():
    config = TrainConfig()
    found = {key["key"]: key for key in list_schema_keys(config_schema(), config.model_dump(mode="json"))}
    leaves = {key.path: key for key in list_keys(TrainConfig) if not key.is_section}
    assert set(leaves) <= set(found)
    assert found["ppo.gamma"]["default"] == config.ppo.gamma
    assert {path: found[path]["help"] for path in leaves} == {path: key.description for path, key in leaves.items()}
    chosen = {path: list(key.choices) for path, key in leaves.items() if key.choices and "true" not in key.choices}
    assert {path: found[path]["choices"] for path in chosen} == chosen
    assert found["ppo.gamma"]["limits"] == ">= 0, <= 1"


def test_null_and_several_types_are_told():
    schema = {"properties": {"a": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}, "b": {}}}
    first, second = list_schema_keys(schema, {"a": None})
    assert (first["type"], first["limits"], first["default"]) == ("integer or null", ">= 1", None)
    assert second["type"] == "any"


def test_a_schema_that_refers_to_itself_ends():
    schema = {
        "$defs": {"N": {"properties": {"next": {"$ref": "#/$defs/N"}}}},
        "properties": {"n": {"$ref": "#/$defs/N"}},
    }
    assert len(list_schema_keys(schema, {})) == 1


def test_defaults_come_from_the_schema_where_nothing_else_knows_them():
    schema = {"$defs": {"D": {"default": 2}}, "properties": {"a": {"default": 1}, "b": {"$ref": "#/$defs/D"}, "c": {}}}
    assert default_values(schema) == {"a": 1, "b": 2, "c": None}
