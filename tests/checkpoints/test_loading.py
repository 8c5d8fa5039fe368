from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import pytest
import torch
from pydantic import BaseModel
from torch import nn

from palaestra.checkpoints.loading import copy_of, describe_agent, load_opened_module, load_policy
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.store import PreparedSave
from palaestra.checkpoints.weights import policy_to_bytes, weights_to_bytes
from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import DamagedFile, RefusedFile, UsageError
from palaestra.core.spaces import (
    BoxSpec,
    DictSpec,
    DiscreteSpec,
    EnvInterface,
    MultiDiscreteSpec,
    decode_interface,
    encode_interface,
)
from palaestra.envs.spaces import interface_of
from palaestra.policies.base import Policy, PolicyOutput
from palaestra.policies.build import build_policy
from palaestra.policies.distributions import Categorical

CARTPOLE = EnvInterface(BoxSpec((4,)), DiscreteSpec(2))


class Counter(Policy):
    """Remembers how many steps it has seen, and plays that number."""

    class Settings(BaseModel):
        pass

    def __init__(self, interface, settings):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def initial_memory(self, batch_size):
        return {"steps": torch.zeros(batch_size)}

    def forward(self, observation, memory, starts=None):
        logits = -(torch.arange(10.0) - memory["steps"][None, :, None]).abs() + self.weight
        return PolicyOutput(Categorical(logits), memory["steps"][None], {"steps": memory["steps"] + 1})


@pytest.fixture
def saved(tmp_path, describe):
    """`saved(config, interface)`: the policy, saved as epoch 1 of a run in tmp_path/run."""

    def one(config, interface, **changes):
        torch.manual_seed(0)
        policy = build_policy(config, interface)
        described = describe(1, policy=config.model_dump(), interface=encode_interface(interface), **changes)
        CheckpointManager(tmp_path / "run").save(policy, described)
        return policy

    return one


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0"])
def test_a_loaded_policy_plays_what_the_environment_takes(tmp_path, saved, env_id):
    env = gymnasium.make(env_id)
    policy = saved(PolicyConfig(graph="mlp", normalize_observations=True), interface_of(env))
    loaded = load_policy(tmp_path / "run")
    observation, _ = env.reset(seed=1)
    for _ in range(10):
        with torch.no_grad():
            wanted = policy(torch.as_tensor(observation, dtype=torch.float32)[None, None], {}).distribution.mode()[0, 0]
        action = loaded.act(observation)
        assert env.action_space.contains(action)
        clipped = (
            np.clip(wanted.numpy(), env.action_space.low, env.action_space.high) if wanted.ndim else wanted.numpy()
        )
        np.testing.assert_allclose(action, clipped, rtol=1e-6)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()
    env.close()


@pytest.mark.parametrize(
    ("space", "observation"),
    [
        (DiscreteSpec(5, start=2), 4),
        (MultiDiscreteSpec((3, 4)), np.array([2, 1])),
        (BoxSpec((2, 2, 1), "uint8", (0.0,), (255.0,)), np.full((2, 2, 1), 7, np.uint8)),
        (DictSpec((("a", BoxSpec((2,))), ("b", BoxSpec((1,))))), {"b": np.ones(1), "a": np.zeros(2)}),
        (DictSpec((("a", BoxSpec((2,))), ("b", DiscreteSpec(3)))), {"b": 1, "a": np.zeros(2)}),
    ],
)
def test_every_kind_of_observation_is_taken_as_the_environment_gives_it(tmp_path, saved, space, observation):
    saved(PolicyConfig(graph="mlp"), EnvInterface(space, DiscreteSpec(3, start=5)))
    assert load_policy(tmp_path / "run").act(observation) in {5, 6, 7}


def test_sampling_follows_its_generator(tmp_path, saved):
    saved(PolicyConfig(graph="mlp"), CARTPOLE)
    loaded = load_policy(f"{tmp_path}/run:1")

    def play(seed):
        generator = torch.Generator().manual_seed(seed)
        return [loaded.act(np.zeros(4), deterministic=False, generator=generator) for _ in range(40)]

    assert play(1) == play(1)
    assert play(1) != play(2)
    assert set(play(1)) == {0, 1}


def test_memory_goes_on_within_an_episode_and_ends_with_reset(tmp_path, saved):
    saved(PolicyConfig(module=f"{__name__}:Counter"), EnvInterface(BoxSpec((4,)), DiscreteSpec(10)))
    loaded = load_policy(tmp_path / "run", trust_module=True)
    assert [loaded.act(np.zeros(4)) for _ in range(4)] == [0, 1, 2, 3]
    loaded.reset()
    assert [loaded.act(np.zeros(4)) for _ in range(2)] == [0, 1]


def test_a_module_that_only_the_file_names_is_not_imported(tmp_path, saved, monkeypatch):
    (tmp_path / "evil_policy.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')")
    monkeypatch.syspath_prepend(str(tmp_path))
    saved(PolicyConfig(graph="mlp"), CARTPOLE)
    manager = CheckpointManager(tmp_path / "run")
    manager.update_metadata(1, policy={"module": "evil_policy:Evil"})
    with pytest.raises(RefusedFile, match="evil_policy"):
        load_policy(tmp_path / "run", tmp_path / "runs")
    assert not (tmp_path / "canary").exists()


def test_the_policy_is_ready_to_judge_not_to_learn(tmp_path, saved):
    saved(PolicyConfig(graph="mlp"), CARTPOLE, score=4.0)
    loaded = load_policy(tmp_path / "run/checkpoints/model_0001.safetensors")
    assert not loaded.policy.training
    assert not any(parameter.requires_grad for parameter in loaded.policy.parameters())
    assert loaded.checkpoint.score == 4.0


@pytest.mark.parametrize(
    ("changes", "error", "named"),
    [
        ({"policy": {"graph": "mlp", "module": "a:B"}}, DamagedFile, "not both"),
        ({"policy": {"graph": "mlp", "settings": {"hidden": [3]}}}, DamagedFile, "do not fit"),
        ({"policy": {"graph": "mlp", "settings": {"hiden": [3]}}}, UsageError, "hidden"),
        ({"interface": {}}, DamagedFile, "interface"),
    ],
)
def test_a_description_that_does_not_fit_is_said_so(tmp_path, saved, changes, error, named):
    saved(PolicyConfig(graph="mlp"), CARTPOLE)
    CheckpointManager(tmp_path / "run").update_metadata(1, **changes)
    with pytest.raises(error, match=named):
        load_policy(tmp_path / "run")


@pytest.mark.fault("C14")
def test_a_tensor_under_another_type_is_refused(tmp_path, saved):
    """Four bytes are a float or a whole number, whichever the header says; the checksums are those of the lie."""
    policy = saved(PolicyConfig(graph="mlp"), CARTPOLE)
    manager = CheckpointManager(tmp_path / "run")
    data = policy_to_bytes(policy)
    relabelled = data.replace(b'"F32"', b'"I32"', 1)
    manager.commit(PreparedSave(manager.list_all_checkpoints()[0], {"model_0001.safetensors": relabelled}))
    with pytest.raises(DamagedFile, match=r"is I32 .*, expected F32"):
        load_policy(tmp_path / "run")


@pytest.mark.fault("R9")
def test_weights_that_are_nan_are_refused(tmp_path, saved):
    policy = saved(PolicyConfig(graph="mlp"), CARTPOLE)
    manager = CheckpointManager(tmp_path / "run")
    poisoned = {name: torch.full_like(tensor, torch.nan) for name, tensor in policy.state_dict().items()}
    manager.commit(
        PreparedSave(manager.list_all_checkpoints()[0], {"model_0001.safetensors": weights_to_bytes(poisoned)})
    )
    with pytest.raises(DamagedFile, match=r"hold NaN.*earlier checkpoint"):
        load_policy(tmp_path / "run")


def test_a_damaged_newest_is_not_what_plays(tmp_path, saved, damage):
    saved(PolicyConfig(graph="mlp"), CARTPOLE)
    manager = CheckpointManager(tmp_path / "run")
    weights, checkpoint = manager.load_weights()
    policy = build_policy(PolicyConfig(graph="mlp"), CARTPOLE)
    manager.save(policy, dataclasses.replace(checkpoint, epoch=2))
    damage(manager.directory / "model_0002.safetensors")
    loaded = load_policy(tmp_path / "run")
    assert loaded.checkpoint.epoch == 1
    assert all(torch.equal(loaded.policy.state_dict()[name], tensor) for name, tensor in weights.items())


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
        load_opened_module(manager.open(), dict)
