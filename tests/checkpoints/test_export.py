import sys

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from safetensors.torch import load_file

from palaestra.checkpoints.export import export_onnx, export_state_dict
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.policy import PolicyConfig
from palaestra.contracts.codec import encode_interface
from palaestra.contracts.errors import MissingExtra, UsageError
from palaestra.contracts.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec
from palaestra.policies.build import build_policy

CARTPOLE = EnvInterface(BoxSpec((4,)), DiscreteSpec(2))


@pytest.fixture
def run(tmp_path, describe):
    def one(interface=CARTPOLE):
        torch.manual_seed(0)
        config = PolicyConfig(graph="mlp", normalize_observations=True)
        policy = build_policy(config, interface).eval()
        described = describe(1, policy=config.model_dump(), interface=encode_interface(interface))
        CheckpointManager(tmp_path / "run").save_agent(policy, described)
        return policy

    return one


@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_the_weights_alone_can_be_read_by_others(tmp_path, run, ending):
    policy = run()
    out = export_state_dict(tmp_path / "run", tmp_path / f"weights.{ending}")
    read = load_file(out) if ending == "safetensors" else torch.load(out, weights_only=True)
    assert set(read) == set(policy.state_dict())
    assert all(torch.equal(read[name], tensor) for name, tensor in policy.state_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "interface",
    [
        CARTPOLE,
        EnvInterface(BoxSpec((3,)), BoxSpec((2,), low=(-1.0,), high=(1.0,))),
        EnvInterface(BoxSpec((4,)), MultiDiscreteSpec((2, 3))),
        EnvInterface(DictSpec((("near", BoxSpec((2,))), ("far", BoxSpec((3,))))), DiscreteSpec(3)),
    ],
    ids=["discrete", "continuous", "multi-discrete", "dict observation"],
)
def test_onnx_acts_like_the_policy_on_any_batch(tmp_path, run, interface):
    policy = run(interface)
    model = onnx.load(export_onnx(tmp_path / "run", tmp_path / "policy.onnx"))
    evaluator = ReferenceEvaluator(model)
    space = interface.observation_space
    parts = dict(space.parts) if isinstance(space, DictSpec) else {"observation": space}
    assert evaluator.input_names == list(parts)
    drawn = {
        name: np.random.default_rng(1).normal(size=(7, *part.shape)).astype(np.float32) for name, part in parts.items()
    }
    tensors = {name: torch.from_numpy(array)[None] for name, array in drawn.items()}
    with torch.no_grad():
        wanted = policy(tensors if isinstance(space, DictSpec) else tensors["observation"], {})
    action, value = evaluator.run(["action", "value"], drawn)
    np.testing.assert_allclose(action, wanted.distribution.mode()[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(value, wanted.value[0], rtol=1e-4, atol=1e-5)


def test_without_the_extra_it_is_named(tmp_path, run, monkeypatch):
    run()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"palaestra\[onnx\]"):
        export_onnx(tmp_path / "run", tmp_path / "policy.onnx")


def test_an_unknown_ending_or_place_is_refused(tmp_path, run):
    run()
    with pytest.raises(UsageError, match="does not end in"):
        export_state_dict(tmp_path / "run", tmp_path / "weights.pkl")
    with pytest.raises(UsageError, match="not a directory"):
        export_state_dict(tmp_path / "run", tmp_path / "nowhere/weights.pt")
