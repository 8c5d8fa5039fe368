from pathlib import Path

from palaestra.apps.scripts.schema import own_schema, script_schema
from palaestra.apps.scripts.script import read_script

PPO = Path(__file__).parent / "scripts" / "ppo.py"


def test_the_form_of_a_script_has_its_arguments_after_our_own_settings():
    properties = script_schema(read_script(PPO))["properties"]
    assert list(properties)[:2] == ["script", "python"]
    assert properties["target_kl"] == {
        "type": ["number", "null"],
        "description": "the target KL divergence threshold",
        "default": None,
    }
    assert properties["track"]["default"] is False
    assert "batch_size" not in properties


def test_unknown_keys_are_only_allowed_while_no_script_is_named():
    assert own_schema()["additionalProperties"] is True
    assert script_schema(read_script(PPO))["additionalProperties"] is False
