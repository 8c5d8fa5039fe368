import sys
from types import ModuleType

import pytest
import torch
from pydantic import BaseModel
from torch import nn

from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.policies.base import Policy
from palaestra.policies.build import build_policy, find_policy
from palaestra.policies.graph import GraphPolicy

INTERFACE = EnvInterface(BoxSpec((3,)), DiscreteSpec(2))


class Own(Policy):
    class Settings(BaseModel):
        width: int = 4

    def __init__(self, interface, settings) -> None:
        super().__init__()
        self.layer = nn.Linear(3, settings.width)


class WithoutSettings(Policy):
    pass


@pytest.fixture(autouse=True)
def own_module(monkeypatch):
    module = ModuleType("own_policies")
    module.Own, module.WithoutSettings, module.Linear = Own, WithoutSettings, nn.Linear
    monkeypatch.setitem(sys.modules, "own_policies", module)


def test_a_policy_known_by_name_is_built_with_its_settings():
    agent = build_policy(PolicyConfig(graph="mlp", settings={"hidden": [5]}), INTERFACE)
    assert isinstance(agent.network, GraphPolicy)
    assert agent.network.nodes.actor.layers[0].weight.shape == (5, 3)
    assert agent.interface == INTERFACE


def test_a_class_of_ones_own_comes_through_the_same_door():
    agent = build_policy(PolicyConfig(module="own_policies:Own", settings={"width": 9}), INTERFACE)
    assert agent.network.layer.out_features == 9


def test_the_global_seed_decides_the_weights():
    def weights(seed):
        torch.manual_seed(seed)
        return build_policy(PolicyConfig(graph="mlp"), INTERFACE).network.nodes.actor.layers[0].weight.tolist()

    assert weights(1) == weights(1) != weights(2)


def test_normalisers_are_there_when_asked_for():
    agent = build_policy(PolicyConfig(graph="mlp", normalize_observations=True, normalize_returns=True), INTERFACE)
    assert agent.observation_normalizer is not None
    assert agent.return_scaler is not None


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(NotFound, match="'mpl'.*Did you mean 'mlp'"):
        find_policy(PolicyConfig(graph="mpl"))


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        ("own_policies", "names no class"),
        ("no_such_module:Own", "'no_such_module' cannot be imported"),
        ("own_policies:Onw", "has no 'Onw'. Did you mean 'Own'"),
        ("own_policies:Linear", "is not a palaestra.policies.base.Policy"),
        ("own_policies:WithoutSettings", "has no Settings"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_with_what_to_try(module, complaint):
    with pytest.raises(UsageError) as refused:
        find_policy(PolicyConfig(module=module))
    assert complaint in str(refused.value)


@pytest.mark.parametrize("config", [{"graph": "mlp"}, {"module": "own_policies:Own"}])
def test_both_kinds_refuse_an_unknown_setting(config):
    with pytest.raises(UsageError, match="policy.settings.depht is not a setting of this policy"):
        build_policy(PolicyConfig(**config, settings={"depht": 3}), INTERFACE)


def test_a_setting_of_the_wrong_kind_is_refused_with_its_value():
    with pytest.raises(UsageError, match="policy.settings.width='wide'"):
        build_policy(PolicyConfig(module="own_policies:Own", settings={"width": "wide"}), INTERFACE)
