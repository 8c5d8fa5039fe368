import math

import pytest
import torch

from palaestra.analysis.report import analyze_targets
from palaestra.analysis.targets import find_targets
from palaestra.analysis.weights import weigh, with_weights
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.policy import PolicyConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import DamagedFile
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, encode_interface
from palaestra.policies.build import build_policy


@pytest.fixture
def saved(make_run):
    run = make_run("first")
    interface = EnvInterface(BoxSpec((4,)), DiscreteSpec(2))
    config = PolicyConfig(graph="mlp", settings={"hidden": [8]})
    policy = build_policy(config, interface)
    with torch.no_grad():
        for parameter in policy.network.parameters():
            parameter.zero_()
        first = next(one for one in policy.network.parameters() if tuple(one.shape) == (8, 4))
        first[0, 0] = first[1, 1] = 3.0  # two of eight units hear something, in two equal directions
    described = Checkpoint(
        epoch=1,
        agent_step=1,
        total_time=1.0,
        run=run.directory.id,
        run_name="first",
        saved_at=0.0,
        policy=config.model_dump(),
        env={"id": "CartPole-v1"},
        interface=encode_interface(interface),
    )
    CheckpointManager(run.directory).save(policy, described)
    return run


def test_layers_are_weighed_as_they_were_saved(saved):
    found = weigh(find_targets(["first"])[0])
    layer = next(one for one in found.layers if one.norm > 0)
    assert (layer.units, layer.inputs, layer.full_rank) == (8, 4, 4)
    assert layer.norm == pytest.approx(math.sqrt(18))
    assert layer.effective_rank == pytest.approx(2)
    assert layer.dead_units == 6 / 8
    assert found.label == "first:1"


def test_damaged_weights_are_not_weighed(saved):
    (saved.directory.checkpoints / "model_0001.safetensors").write_bytes(b"damaged")
    with pytest.raises(DamagedFile):
        weigh(find_targets(["first:1"])[0])


def test_weights_that_cannot_be_read_are_reported_and_the_others_are_weighed(saved, make_run):
    make_run("second", a=1).save(1)
    targets = find_targets(["second", "first"])
    found = with_weights(analyze_targets(targets), targets)
    assert [one.label for one in found.weights] == ["first:1"]
    assert found.notes[-1].startswith("second:1: Its weights are not shown: ")
