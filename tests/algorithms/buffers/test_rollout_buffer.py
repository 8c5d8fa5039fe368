import numpy as np
import pytest
import torch

from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer, stack_observations
from palaestra.core.errors import NonFinite
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec

PARTS = DictSpec((("camera", BoxSpec((2, 2), "uint8")), ("door", DiscreteSpec(3)), ("speed", BoxSpec((1,)))))


def test_the_policy_reads_what_the_environments_wrote_without_a_copy():
    buffer = RolloutBuffer(BoxSpec((2,)), horizon=3, env_count=4)
    buffer.rows[2][1] = [5.0, 6.0]
    assert buffer.inputs[2].shape == (1, 4, 2)
    assert buffer.inputs[2][0, 1].tolist() == [5.0, 6.0]
    assert buffer.observations.shape == (3, 4, 2)


def test_named_parts_are_kept_in_their_own_types():
    buffer = RolloutBuffer(PARTS, horizon=2, env_count=3)
    assert {name: (part.dtype, part.shape) for name, part in buffer.inputs[0].items()} == {
        "camera": (torch.uint8, (1, 3, 2, 2)),
        "door": (torch.int64, (1, 3)),
        "speed": (torch.float32, (1, 3, 1)),
    }


def test_rewinding_makes_the_last_row_the_first():
    buffer = RolloutBuffer(BoxSpec((1,)), horizon=2, env_count=2)
    buffer.rows[2][:] = 9.0
    buffer.starts[2] = [True, False]
    buffer.rewind()
    assert buffer.inputs[0].flatten().tolist() == [9.0, 9.0]
    assert buffer.starts[0].tolist() == [True, False]


def test_capture_and_restore_give_back_the_row_to_act_on():
    buffer, other = (RolloutBuffer(PARTS, horizon=2, env_count=2) for _ in range(2))
    buffer.rows[0]["camera"][:] = 7
    buffer.rows[0]["door"][:] = [1, 2]
    buffer.starts[0] = [False, True]
    saved = buffer.capture()
    buffer.rows[0]["camera"][:] = 0  # what was captured is a copy
    other.restore(saved)
    assert other.rows[0]["camera"].tolist() == np.full((2, 2, 2), 7).tolist()
    assert other.rows[0]["door"].tolist() == [1, 2]
    assert other.starts[0].tolist() == [False, True]


@pytest.mark.fault("R9")
def test_an_observation_that_is_not_finite_is_named_with_its_place():
    buffer = RolloutBuffer(PARTS, horizon=2, env_count=3)
    buffer.rows[1]["speed"][2] = np.inf
    with pytest.raises(
        NonFinite, match="'speed' that is not finite .environment 2, step 1 .*component 0: inf"
    ) as failed:
        buffer.refuse_non_finite()
    assert "environment, not from training" in failed.value.hint


def test_single_observations_are_stacked_side_by_side():
    one = {"camera": np.ones((2, 2), np.uint8), "door": 2, "speed": np.array([0.5])}
    stacked = stack_observations(PARTS, [one, one, one])
    assert stacked["camera"].shape == (1, 3, 2, 2)
    assert stacked["door"].tolist() == [[2, 2, 2]]
    assert stacked["speed"].dtype == torch.float32
