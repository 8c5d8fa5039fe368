import json

from palaestra.config.schema import SCHEMA_DIALECT, config_schema
from palaestra.config.train import TrainConfig


def properties(schema):
    yield schema.get("properties", {})
    for definition in schema.get("$defs", {}).values():
        yield definition.get("properties", {})


def test_the_schema_is_plain_json_and_names_its_dialect():
    schema = config_schema()
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$schema"] == SCHEMA_DIALECT


def test_every_field_is_described_and_has_its_default():
    for group in properties(config_schema()):
        for name, field in group.items():
            assert field.get("description"), name
    assert config_schema()["properties"]["total_steps"]["default"] == TrainConfig().total_steps


def test_unknown_keys_are_forbidden_in_every_section():
    schema = config_schema()
    assert schema["additionalProperties"] is False
    assert all(definition["additionalProperties"] is False for definition in schema["$defs"].values())
