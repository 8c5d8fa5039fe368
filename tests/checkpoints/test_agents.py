import pytest
from torch import nn

from palaestra.checkpoints.agents import copy_of, describe_agent, module_from
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, decode_interface
from palaestra.policies.build import build_policy

CARTPOLE = EnvInterface(BoxSpec((4,)), DiscreteSpec(2))


def test_an_agent_of_ours_describes_all_that_is_needed_to_build_it_again():
    config = PolicyConfig(graph="mlp", settings={"hidden": [8]})
    described = describe_agent(build_policy(config, CARTPOLE))
    assert PolicyConfig.model_validate(described.policy) == config
    assert decode_interface(described.interface) == CARTPOLE


def test_a_graph_from_a_file_is_kept_whole(tmp_path):
    text = "\n".join(
        [
            "schema_version: 1",
            "nodes:",
            "  flat: {type: vector, source: observation}",
            "  action: {type: action_head, source: flat}",
            "  value: {type: value_head, source: flat}",
            "",
        ]
    )
    (tmp_path / "own.yaml").write_text(text)
    agent = build_policy(PolicyConfig(graph=str(tmp_path / "own.yaml")), CARTPOLE)
    assert describe_agent(agent).policy["graph"] == text


def test_a_torch_module_is_described_by_its_class():
    assert describe_agent(nn.Linear(2, 2)).policy == {"torch_module": "torch.nn.modules.linear:Linear"}
    with pytest.raises(UsageError, match="cannot save a builtins.list"):
        describe_agent([])


def test_a_copy_is_made_of_the_same_class_only(tmp_path):
    manager, layer = CheckpointManager(tmp_path), nn.Linear(2, 2)
    manager.save_agent(layer, 1)
    opened = manager.open()
    copied = copy_of(layer, opened)
    assert isinstance(copied, nn.Linear)
    assert copied is not layer
    assert copy_of(nn.Sequential(), opened) is None


def test_a_function_that_makes_no_module_is_refused(tmp_path):
    manager = CheckpointManager(tmp_path)
    manager.save_agent(nn.Linear(2, 2), 1)
    with pytest.raises(UsageError, match="into=Linear"):
        module_from(manager.open(), dict)
