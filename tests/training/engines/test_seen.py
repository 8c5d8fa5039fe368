import numpy as np

from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.core.spaces import BoxSpec, DictSpec
from palaestra.training.engines.codes import InputCode, InputPlan, LayerPlan
from palaestra.training.engines.seen import Seen, vector_input

VIEW = BoxSpec((2, 3), "uint8", low=(0.0,) * 6, high=(6.0,) * 6)
OWN = BoxSpec((4,), "uint8", low=(0.0,) * 4, high=(255.0,) * 4)
SPACE = DictSpec((("cells", VIEW), ("self", OWN)))
BOTH = LayerPlan([4], part="self", table_parts=["cells", "self"])


def test_the_engine_sees_the_tapes_own_blocks():
    tape = RolloutBuffer(SPACE, horizon=5, env_count=3)
    seen = Seen(BOTH, tape)
    assert seen.vector is tape.blocks["self"]
    assert seen.codes[0] is tape.blocks["cells"]
    assert seen.codes[1] is tape.blocks["self"]


def test_last_observations_come_in_the_order_of_the_cuts_and_as_the_tape_keeps_them():
    seen = Seen(BOTH, RolloutBuffer(SPACE, horizon=5, env_count=3))
    last = [{"cells": np.full((2, 3), k, np.int64), "self": np.arange(4) + k} for k in (5, 2)]
    vector, (cells, own) = seen.stacked(last)
    assert vector.dtype == cells.dtype == np.uint8
    assert vector.tolist() == own.tolist() == [[5, 6, 7, 8], [2, 3, 4, 5]]
    assert cells[:, 1, 2].tolist() == [5, 2]


def test_without_cuts_there_are_no_rows():
    vector, codes = Seen(BOTH, RolloutBuffer(SPACE, horizon=5, env_count=3)).stacked([])
    assert vector.shape == (0, 4)
    assert [part.shape for part in codes] == [(0, 2, 3), (0, 4)]


def test_an_observation_without_named_parts_is_one_vector():
    plan = LayerPlan([4])
    seen = Seen(plan, RolloutBuffer(BoxSpec((4,)), horizon=5, env_count=3))
    vector, codes = seen.stacked([np.ones(4), np.zeros(4)])
    assert vector.dtype == np.float32
    assert vector.shape == (2, 4)
    assert codes == seen.codes == []
    assert vector_input(plan, BoxSpec((4,))).code is InputCode.REALS


def test_of_codes_alone_no_vector_is_made():
    plan = LayerPlan([0], part=None, table_parts=["cells"])
    seen = Seen(plan, RolloutBuffer(SPACE, horizon=5, env_count=3))
    assert seen.vector.size == seen.stacked([{"cells": np.zeros((2, 3))}])[0].size == 0
    assert vector_input(plan, SPACE) == InputPlan(InputCode.BYTES, 0, [], [])
