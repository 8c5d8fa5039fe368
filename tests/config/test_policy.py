import pytest
from pydantic import ValidationError

from palaestra.config.policy import PolicyConfig


def test_a_bare_name_is_a_graph_and_without_a_name_it_follows_from_the_observations():
    assert PolicyConfig.model_validate("fast").graph == "fast"
    assert PolicyConfig().graph == "auto"
    assert PolicyConfig.model_validate({"settings": {}}).graph == "auto"


def test_graph_and_module_are_two_ways_and_only_one_can_be_taken():
    with pytest.raises(ValidationError, match="not both"):
        PolicyConfig(graph="mlp", module="mine:Net")
    assert PolicyConfig(module="mine:Net").graph is None


def test_naming_the_same_network_keeps_its_settings():
    standing = {"graph": "mlp", "module": None, "settings": {"hidden": [8]}}
    assert standing | PolicyConfig.normalize_override("mlp", standing) == {
        "graph": "mlp",
        "module": None,
        "settings": {"hidden": [8]},
    }


def test_naming_another_drops_them():
    standing = {"graph": "mlp", "module": None, "settings": {"hidden": [8]}, "normalize_returns": True}
    settled = standing | PolicyConfig.normalize_override({"module": "mine:Net"}, standing)
    assert settled == {"graph": None, "module": "mine:Net", "settings": {}, "normalize_returns": True}


def test_what_it_writes_it_reads_again():
    for config in (PolicyConfig(), PolicyConfig(module="mine:Net", settings={"a": 1})):
        assert PolicyConfig.model_validate(config.model_dump(mode="json")) == config


@pytest.mark.parametrize(("config", "said"), [(PolicyConfig(), "auto"), (PolicyConfig(module="mine:Net"), "mine:Net")])
def test_it_reads_as_its_name(config, said):
    assert str(config) == said
