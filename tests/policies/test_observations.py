import numpy as np
import pytest
import torch
from gymnasium import spaces

from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec
from palaestra.envs.spaces import observation_arrays, space_spec
from palaestra.policies.observations import flat_size, flatten_observation, storage_dtype, to_tensor

SPACES = [
    spaces.Box(-1.0, 1.0, (3,), np.float32),
    spaces.Box(-1.0, 1.0, (), np.float32),
    spaces.Box(-1.0, 1.0, (2, 3), np.float64),
    spaces.Discrete(4, start=2),
    spaces.MultiDiscrete([2, 3], start=[0, 5]),
    spaces.MultiBinary(3),
    spaces.Dict(door=spaces.Discrete(3), speed=spaces.Box(-1.0, 1.0, (2,), np.float32)),
    spaces.Tuple([spaces.Discrete(2), spaces.Box(-1.0, 1.0, (1,), np.float32)]),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_flattening_agrees_with_gymnasiums_own(space):
    space.seed(3)
    spec = space_spec(space)
    for _ in range(5):
        observation = space.sample()
        tensor = to_tensor(spec, observation_arrays(spec, observation))
        flat = flatten_observation(spec, tensor)
        expected = expected_flat(space, observation)
        assert flat.shape == (1, 1, flat_size(spec))
        assert flat.dtype == torch.float32
        np.testing.assert_allclose(flat[0, 0], expected, rtol=1e-6)


def expected_flat(space, observation):
    """Gymnasium's, except that it keeps bits as one number where we make them choices."""
    match space:
        case spaces.MultiBinary():
            return np.eye(2)[np.asarray(observation)].ravel()
        case spaces.Dict():
            parts = [expected_flat(part, observation[name]) for name, part in space.spaces.items()]
            return np.concatenate(parts)
        case spaces.Tuple():
            return np.concatenate(
                [expected_flat(part, one) for part, one in zip(space.spaces, observation, strict=True)]
            )
        case _:
            return spaces.flatten(space, observation)


def test_bytes_become_0_to_1_and_are_kept_as_bytes_until_then():
    space = BoxSpec((2, 2), "uint8")
    assert storage_dtype(space) == np.uint8
    image = torch.tensor([[0, 255], [51, 102]], dtype=torch.uint8)[None, None]
    assert flatten_observation(space, image).flatten().tolist() == pytest.approx([0.0, 1.0, 0.2, 0.4])


@pytest.mark.parametrize(
    ("space", "dtype"),
    [(BoxSpec((1,), "float64"), np.float32), (DiscreteSpec(2), np.int64), (MultiDiscreteSpec((2,)), np.int64)],
)
def test_real_numbers_are_kept_as_float32_and_choices_as_int64(space, dtype):
    assert storage_dtype(space) == dtype


def test_a_tensor_does_not_share_memory_with_the_environments_array():
    array = np.zeros(2, np.float32)
    tensor = to_tensor(BoxSpec((2,)), array)
    array[:] = 9.0
    assert tensor.flatten().tolist() == [0.0, 0.0]


def test_parts_are_laid_side_by_side_in_the_order_of_the_space():
    space = DictSpec((("b", DiscreteSpec(2)), ("a", BoxSpec((1,)))))
    observation = {"a": torch.full((4, 3, 1), 7.0), "b": torch.ones(4, 3, dtype=torch.int64)}
    assert flatten_observation(space, observation)[2, 1].tolist() == [0.0, 1.0, 7.0]
