from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec, decode_space, encode_space
from palaestra.envs.make import make_env
from palaestra.envs.spaces import (
    action_converter,
    describe_space,
    interface_of,
    observation_arrays,
    space_spec,
    to_env_action,
)

numbers = st.floats(allow_nan=False, width=32)


@given(count=st.integers(1, 50), start=st.integers(-9, 9), data=st.data())
def test_every_discrete_choice_is_an_action_of_the_space(count, start, data):
    space = spaces.Discrete(count, start=start)
    choice = data.draw(st.integers(0, count - 1))
    action = to_env_action(space_spec(space), np.int64(choice))
    assert space.contains(action)
    assert action == start + choice


@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=5), data=st.data())
def test_every_multi_discrete_choice_is_an_action_of_the_space(counts, data):
    starts = data.draw(st.lists(st.integers(-5, 5), min_size=len(counts), max_size=len(counts)))
    space = spaces.MultiDiscrete(counts, start=starts)
    choice = [data.draw(st.integers(0, count - 1)) for count in counts]
    action = to_env_action(space_spec(space), np.array(choice))
    assert space.contains(action)
    assert action.tolist() == [start + one for start, one in zip(starts, choice, strict=True)]


@given(bits=st.lists(st.integers(0, 1), min_size=1, max_size=8))
def test_binary_choices_are_choices_of_two(bits):
    space = spaces.MultiBinary(len(bits))
    assert space.contains(to_env_action(space_spec(space), np.array(bits)))


@settings(deadline=None)  # how long one example takes says only how busy the machine is
@given(
    shape=st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple),
    dtype=st.sampled_from(["float32", "float64"]),
    data=st.data(),
)
def test_whatever_the_network_says_is_clipped_into_the_box(shape, dtype, data):
    sides = arrays_of.arrays(dtype, shape, elements=st.floats(-1e6, 1e6, width=32))
    one, other = data.draw(sides), data.draw(sides)
    space = spaces.Box(np.minimum(one, other), np.maximum(one, other), dtype=np.dtype(dtype).type)
    reported = data.draw(arrays_of.arrays("float32", (int(np.prod(shape)),), elements=numbers))
    action = to_env_action(space_spec(space), reported)
    assert space.contains(action)
    assert action.dtype == np.dtype(dtype)
    inside = (reported.reshape(shape) >= space.low) & (reported.reshape(shape) <= space.high)
    assert np.array_equal(action[inside], reported.reshape(shape)[inside].astype(dtype))


def test_an_unbounded_box_clips_nothing():
    spec = space_spec(spaces.Box(-np.inf, np.inf, (2,), np.float32))
    assert to_env_action(spec, np.array([-1e30, 1e30], np.float32)).tolist() == pytest.approx([-1e30, 1e30])


def test_bounds_that_agree_are_one_number_and_others_are_all_there():
    assert space_spec(spaces.Box(0, 255, (84, 84, 3), np.uint8)) == BoxSpec((84, 84, 3), "uint8", (0.0,), (255.0,))
    mixed = spaces.Box(np.array([-1.0, -2.0], np.float32), np.array([1.0, 1.0], np.float32))
    assert space_spec(mixed) == BoxSpec((2,), "float32", (-1.0, -2.0), (1.0,))


def test_dictionaries_and_tuples_keep_their_order_and_inner_parts_are_named_with_dots():
    space = spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2)))})
    expected = {"b": DiscreteSpec(2), "a.0": DiscreteSpec(3), "a.1": MultiDiscreteSpec((2, 2), (0, 0))}
    spec = space_spec(space)
    assert dict(spec.parts) == expected
    assert [name.split(".")[0] for name, _ in spec.parts if not name.endswith("1")] == list(space.spaces)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (2, 3), np.float32),
        spaces.Discrete(5, start=-2),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(4),
        spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(-np.inf, np.inf, (1,))),
    ],
)
def test_a_spec_survives_the_sidecar(space):
    spec = space_spec(space)
    assert decode_space(encode_space(spec)) == spec


@pytest.mark.parametrize(
    "space", [spaces.Text(5), spaces.Sequence(spaces.Discrete(2)), spaces.Graph(spaces.Discrete(2), None)]
)
def test_an_unsupported_space_is_named_with_those_supported(space):
    with pytest.raises(UsageError, match=rf"{type(space).__name__}.*Supported: Box"):
        space_spec(space)


def test_an_unsupported_part_is_named_with_the_wrapper_that_leaves_it_out():
    space = spaces.Dict(image=spaces.Box(0, 255, (7, 7, 3), np.uint8), mission=spaces.Text(50))
    with pytest.raises(UsageError, match=r"part 'mission' is a Text space.*FilterObservation.*\['image'\]"):
        space_spec(space)


def test_a_mission_of_minigrid_is_refused_with_minigrids_own_wrapper():
    class MissionSpace(spaces.Text):
        __module__ = "minigrid.core.mission"

    with pytest.raises(UsageError, match=r"minigrid\.wrappers\.ImgObsWrapper"):
        space_spec(spaces.Dict(mission=MissionSpace(50)))


class Acting(gymnasium.Env):
    observation_space = spaces.Discrete(2)

    def __init__(self, action_space):
        self.action_space = action_space


@pytest.mark.parametrize(
    ("space", "why"),
    [
        (spaces.Box(0, 9, (2,), np.int32), "int32"),
        (spaces.MultiDiscrete([[2, 2], [3, 3]]), "2 dimensions"),
        (spaces.MultiBinary((2, 2)), "2 dimensions"),
        (spaces.Dict(a=spaces.Discrete(2)), "several parts"),
        (spaces.Tuple((spaces.Discrete(2),)), "several parts"),
    ],
)
def test_actions_that_no_policy_can_take_are_refused_at_the_interface(space, why):
    with pytest.raises(UsageError, match=why):
        interface_of(Acting(space))


def test_the_interface_of_cartpole():
    interface = interface_of(make_env(EnvConfig(id="CartPole-v1")))
    assert interface.action_space == DiscreteSpec(2)
    assert interface.observation_space.shape == (4,)


def test_observations_become_arrays_with_tuples_by_number():
    space = spaces.Tuple((spaces.Discrete(3), spaces.Dict(x=spaces.MultiBinary((2, 2)), y=spaces.Box(0, 1, (2,)))))
    observation = (np.int64(2), {"y": np.ones(2, np.float32), "x": np.eye(2, dtype=np.int8)})
    arrays = observation_arrays(space_spec(space), observation)
    assert arrays["0"].shape == ()
    assert arrays["1.x"].tolist() == [1, 0, 0, 1]
    assert arrays["1.y"].tolist() == [1.0, 1.0]


def test_actions_of_a_dictionary_are_refused():
    with pytest.raises(UsageError, match="Flatten"):
        action_converter(DictSpec((("a", DiscreteSpec(2)),)))


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (BoxSpec((4,)), "box [4] float32 from -inf to inf"),
        (BoxSpec((2,), low=(0.0, -1.0), high=(1.5, 2.0)), "box [2] float32 from [0, -1] to [1.5, 2]"),
        (BoxSpec((6,), low=(0.0,) * 5 + (1.0,)), "box [6] float32 from [0, 0, 0, 0, …] to inf"),
        (DiscreteSpec(3), "3 choices"),
        (DiscreteSpec(3, 5), "3 choices from 5"),
        (MultiDiscreteSpec((2, 3), (0, 0)), "choices of 2, 3"),
        (MultiDiscreteSpec((2, 3), (0, 1)), "choices of 2, 3 from 0, 1"),
        (DictSpec((("left", DiscreteSpec(2)), ("right", DiscreteSpec(4)))), "{left: 2 choices, right: 4 choices}"),
    ],
)
def test_spaces_in_one_phrase(space, text):
    assert describe_space(space) == text
