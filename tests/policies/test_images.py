import pytest
import torch

from palaestra.core.spaces import BoxSpec, DiscreteSpec, FeatureSpec
from palaestra.policies.images import ImageReader, is_image

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
    image = ImageReader(BoxSpec((6, 5, 3), **BYTES))(rows)
    assert image[0, 1, 2, 4] == 1.0
    assert image.sum() == 1.0


def test_bytes_become_floats_before_they_are_scaled():
    rows = torch.full((1, 1, 2, 2), 200, dtype=torch.uint8)
    image = ImageReader(BoxSpec((1, 2, 2), **BYTES))(rows)
    assert image.dtype == torch.float32
    torch.testing.assert_close(image, torch.full((1, 1, 2, 2), 200 / 255))


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
