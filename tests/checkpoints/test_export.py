import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from safetensors.torch import load_file

from palaestra.checkpoints.export import OnnxPlayer, export_onnx, export_state_dict
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import MissingExtra, UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec, encode_interface
from palaestra.policies.build import build_policy

CARTPOLE = EnvInterface(BoxSpec((4,)), DiscreteSpec(2))
PENDULUM = EnvInterface(BoxSpec((3,)), BoxSpec((1,), low=(-2.0,), high=(2.0,)))
# As Arena shows itself: what lies in each cell as a code up to 21, and nine bytes of one's own.
ARENA = EnvInterface(
    DictSpec(
        (
            ("cells", BoxSpec((11, 11), "uint8", (0.0,), (21.0,))),
            ("self", BoxSpec((9,), "uint8", (0.0,), (255.0,))),
        )
    ),
    DiscreteSpec(6),
)
LSTM = """
schema_version: 1
nodes:
  input:  {type: vector, source: observation}
  hidden: {type: linear, source: input, size: 8}
  memory: {type: lstm, source: hidden, size: 6}
  action: {type: action_head, source: memory}
  value:  {type: value_head, source: memory}
"""


@pytest.fixture
def run(tmp_path, describe):
    def one(interface=CARTPOLE, graph="mlp", role="actor_critic"):
        torch.manual_seed(0)
        config = PolicyConfig(graph=graph, normalize_observations=graph == "mlp", role=role)
        policy = build_policy(config, interface).eval()
        described = describe(1, policy=config.model_dump(), interface=encode_interface(interface))
        CheckpointManager(tmp_path / "run").save(policy, described)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "interface", "outputs"),
    [
        ("action_values", CARTPOLE, ["action", "value"]),
        ("stochastic_actor", PENDULUM, ["action"]),
        ("deterministic_actor", PENDULUM, ["action"]),
    ],
)
def test_onnx_of_every_role_acts_like_the_policy_and_has_a_value_where_there_is_one(
    tmp_path, run, role, interface, outputs
):
    policy = run(interface, role=role)
    evaluator = ReferenceEvaluator(onnx.load(export_onnx(tmp_path / "run", tmp_path / "policy.onnx")))
    assert evaluator.output_names == outputs
    drawn = np.random.default_rng(1).normal(size=(7, *interface.observation_space.shape)).astype(np.float32)
    with torch.no_grad():
        wanted = policy(torch.from_numpy(drawn)[None], {})
    found = evaluator.run(None, {"observation": drawn})
    np.testing.assert_allclose(found[0], wanted.distribution.mode()[0], rtol=1e-4, atol=1e-5)
    if len(outputs) == 2:
        np.testing.assert_allclose(found[1], wanted.distribution.values.amax(dim=-1)[0], rtol=1e-4, atol=1e-5)


def observations(interface, batch, generator):
    """By name, as the environment would give them."""
    space = interface.observation_space
    parts = dict(space.parts) if isinstance(space, DictSpec) else {"observation": space}
    return {
        name: generator.integers(0, int(part.high[0]) + 1, (batch, *part.shape), np.uint8)
        if part.dtype == "uint8"
        else generator.normal(size=(batch, *part.shape)).astype(np.float32)
        for name, part in parts.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "interface"),
    [("mlp", CARTPOLE), ("memory", CARTPOLE), (LSTM, CARTPOLE), ("grid", ARENA)],
    ids=["mlp", "minGRU", "LSTM", "Arena's grid"],
)
def test_onnxruntime_plays_like_the_policy_step_after_step(tmp_path, run, graph, interface):
    policy = run(interface, graph)
    session = onnxruntime.InferenceSession(export_onnx(tmp_path / "run", tmp_path / "policy.onnx"))
    outputs = [one.name for one in session.get_outputs()]
    assert outputs == ["action", "value", *(f"next_{name}" for name in policy.initial_memory(1))]
    for batch in (1, 5):
        memory = policy.initial_memory(batch)
        theirs = {name: part.numpy() for name, part in memory.items()}
        generator = np.random.default_rng(batch)
        for _ in range(4):
            seen = observations(interface, batch, generator)
            tensors = {name: torch.from_numpy(part)[None] for name, part in seen.items()}
            with torch.no_grad():
                wanted = policy(tensors if interface is ARENA else tensors["observation"], memory)
            found = dict(zip(outputs, session.run(None, seen | theirs), strict=True))
            np.testing.assert_array_equal(found["action"], wanted.distribution.mode()[0])
            np.testing.assert_allclose(found["value"], wanted.value[0], rtol=1e-4, atol=1e-5)
            memory = wanted.memory
            theirs = {name: found[f"next_{name}"] for name in memory}
            for name, part in memory.items():
                np.testing.assert_allclose(theirs[name], part, rtol=1e-4, atol=1e-5)


def test_examples_lie_within_what_an_environment_can_show():
    policy = build_policy(PolicyConfig(graph="grid"), ARENA)
    cells, own, *_ = OnnxPlayer(policy).example_inputs()
    assert cells.dtype == own.dtype == torch.uint8
    assert 10 < cells.max() <= 21
    assert own.max() > 100
    narrow = EnvInterface(BoxSpec((3,), low=(5.0, -1.0, float("-inf")), high=(6.0, 0.0, 2.0)), DiscreteSpec(2))
    (drawn,) = OnnxPlayer(build_policy(PolicyConfig(graph="mlp"), narrow)).example_inputs()
    assert (drawn >= torch.tensor([5.0, -1.0, 0.0])).all()
    assert (drawn <= torch.tensor([6.0, 0.0, 1.0])).all()


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
