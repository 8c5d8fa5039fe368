"""What the compiled learners take beside networks."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.config.optimizer import OptimizerConfig
from palaestra.config.train import TrainConfig
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface
from palaestra.training.engines.network_plan import NetworkPlan, TablePlan, Unsupported
from palaestra.training.engines.off_policy_plan import (
    adam_arrays,
    compiled_adam,
    compiled_space,
    plan_vector,
    refuse_unfit,
    refuse_unfit_network,
    replay_arrays,
)

RECORDING = SimpleNamespace(AdamConfig=dict, ActionSpace=dict)  # in place of the compiled module
VECTOR = BoxSpec(shape=(3,), low=(-1.0,) * 3, high=(1.0,) * 3)


def test_what_only_torch_can_do_is_named():
    with pytest.raises(Unsupported, match=r"dqn\.optimizer=muon"):
        refuse_unfit(TrainConfig(algorithm="dqn"), OptimizerConfig(kind="muon"))
    with pytest.raises(Unsupported, match=r"policy\.compile=true"):
        refuse_unfit(TrainConfig(algorithm="dqn", policy={"compile": True}), OptimizerConfig())
    refuse_unfit(TrainConfig(algorithm="pqn"), OptimizerConfig(kind="radam"))


def test_networks_with_embedding_tables_are_left_to_torch():
    refuse_unfit_network(NetworkPlan([3]))
    table = TablePlan(
        part="",
        target=1,
        cells=1,
        rows_per_cell=1,
        size=1,
        clips_codes=False,
        weight_offset=0,
        bias_offset=None,
        activation=0,
    )
    with pytest.raises(Unsupported, match="tables"):
        refuse_unfit_network(NetworkPlan([3], tables=[table]))


def test_observations_with_named_parts_are_left_to_torch():
    assert plan_vector(VECTOR).size == 3
    with pytest.raises(Unsupported, match="named parts"):
        plan_vector(DictSpec((("one", VECTOR),)))


def test_gradients_without_a_limit_are_not_clipped():
    assert compiled_adam(RECORDING, OptimizerConfig())["max_grad_norm"] == math.inf
    limited = compiled_adam(RECORDING, OptimizerConfig(kind="radam"), 0.5)
    assert (limited["max_grad_norm"], limited["is_rectified"]) == (0.5, True)


def test_bounds_are_one_for_each_entry_of_an_action():
    uneven = BoxSpec(shape=(2,), low=(-1.0, 0.0), high=(3.0, 1.0))
    assert compiled_space(RECORDING, uneven) == {"half_width": [2.0, 0.5], "middle": [1.0, 0.5]}
    assert compiled_space(RECORDING, DiscreteSpec(4)) == {"choices": 4}


def test_the_engine_reads_and_writes_the_replay_buffers_own_arrays():
    buffer = ReplayBuffer(EnvInterface(VECTOR, DiscreteSpec(2)), 10, 2)
    arrays = replay_arrays(buffer)
    assert arrays["observations"] is buffer.blocks[""]
    assert arrays["rewards"] is buffer.rewards
    assert arrays["finals"] is buffer.finals[""]


def test_stacks_of_frames_are_left_to_torch():
    images = BoxSpec(shape=(4, 8, 8), low=(0.0,), high=(255.0,), dtype="uint8")
    buffer = ReplayBuffer(EnvInterface(images, DiscreteSpec(2)), 10, 1)
    assert buffer.stacks
    with pytest.raises(Unsupported, match="stacks of frames"):
        replay_arrays(buffer)


def test_adams_memory_has_other_names_in_the_engine():
    memory = {name: np.zeros(1, np.float32) for name in ("values", "gradient", "mean", "spread", "step_count")}
    assert list(adam_arrays(memory)) == ["values", "gradient", "exp_avg", "exp_avg_sq", "step_count"]
