from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, FeatureSpec, MultiDiscreteSpec
from palaestra.envs.spaces import observation_arrays, space_spec
from palaestra.policies.observations import (
    ImageReader,
    flat_size,
    flatten_observation,
    is_image,
    storage_dtype,
    to_tensor,
)

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


BYTES = {"dtype": "uint8", "low": (0.0,), "high": (255.0,)}


@pytest.mark.parametrize(
    ("shape", "channels", "expected"),
    [
        ((84, 84, 3), "auto", (3, 84, 84)),
        ((3, 84, 84), "auto", (3, 84, 84)),
        ((24, 11, 11), "auto", (24, 11, 11)),
        ((4, 4, 4), "auto", (4, 4, 4)),
        ((7, 9, 8), "last", (8, 7, 9)),
        ((84, 84, 3), "first", (84, 84, 3)),
        ((10, 12), "auto", (1, 10, 12)),
    ],
)
def test_channels_come_first_wherever_they_were(shape, channels, expected):
    reader = ImageReader(BoxSpec(shape, **BYTES), channels=channels)
    assert reader.shape == expected
    rows = torch.randint(0, 256, (2, *shape), dtype=torch.uint8)
    assert reader(rows).shape == (2, *expected)


def test_a_pixel_keeps_its_place():
    rows = torch.zeros(1, 6, 5, 3, dtype=torch.uint8)
    rows[0, 2, 4, 1] = 255
    picture = ImageReader(BoxSpec((6, 5, 3), **BYTES))(rows)
    assert picture[0, 1, 2, 4] == 1.0
    assert picture.sum() == 1.0


def test_bytes_become_floats_before_they_are_scaled():
    rows = torch.full((1, 1, 2, 2), 200, dtype=torch.uint8)
    picture = ImageReader(BoxSpec((1, 2, 2), **BYTES))(rows)
    assert picture.dtype == torch.float32
    torch.testing.assert_close(picture, torch.full((1, 1, 2, 2), 200 / 255))


def test_named_channels_are_divided_by_their_own_normalisation_and_a_scale_overrules_all():
    features = (FeatureSpec("ore", 1, 10.0), FeatureSpec("wall", 0, 1.0))
    rows = torch.full((1, 2, 4, 4), 5, dtype=torch.uint8)
    space = BoxSpec((2, 4, 4), **BYTES)
    assert ImageReader(space, features)(rows)[0, :, 0, 0].tolist() == [5.0, 0.5]
    assert ImageReader(space, features, scale=50.0)(rows)[0, :, 0, 0].tolist() == pytest.approx([0.1, 0.1])


def test_floats_are_left_as_they_are():
    rows = torch.randn(2, 3, 4, 4)
    assert torch.equal(ImageReader(BoxSpec((3, 4, 4)))(rows), rows)


def test_what_a_picture_is():
    assert is_image(BoxSpec((8, 8)))
    assert is_image(BoxSpec((3, 8, 8)))
    assert not is_image(BoxSpec((8,)))
    assert not is_image(BoxSpec((8, 3), **BYTES)), "tokens"
    assert not is_image(DiscreteSpec(3))
    assert not is_image(None)
