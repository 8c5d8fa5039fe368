import pytest
import torch

from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec
from palaestra.policies.components.base import Misfit, Signal

BYTES = BoxSpec((2, 4, 4), "uint8", (0.0,), (255.0,))
PARTS = DictSpec((("camera", BYTES), ("gear", DiscreteSpec(3, 1)), ("speed", BoxSpec((2,)))))


def raw(space, shape=()):
    return Signal("observation", shape, space)


def test_plain_numbers_pass_as_they_are(make):
    rows = torch.randn(3, 4)
    assert make("vector", raw(BoxSpec((4,)), (4,)))(rows) is rows


def test_everything_becomes_one_vector(make):
    vector = make("vector", raw(PARTS))
    rows = {
        "camera": torch.full((1, 2, 4, 4), 255, dtype=torch.uint8),
        "gear": torch.tensor([2]),
        "speed": torch.tensor([[0.5, -7.0]]),
    }
    assert vector(rows)[0].tolist() == [1.0] * 32 + [0, 1, 0] + [0.5, -7.0]
    assert vector.output.shape == (37,)


def test_an_image_node_gives_channels_first(make):
    image = make("image", raw(BoxSpec((8, 9, 3), "uint8", (0.0,), (255.0,)), (8, 9, 3)), scale=10.0)
    assert image.output.shape == (3, 8, 9)
    assert image(torch.full((2, 8, 9, 3), 20, dtype=torch.uint8)).unique().tolist() == [2.0]


def test_choices_get_vectors_of_their_own(make):
    embedding = make("embedding", raw(MultiDiscreteSpec((3, 2), (0, 5)), (2,)), size=4)
    table = embedding.table.weight
    out = embedding(torch.tensor([[2, 5], [0, 6]]))
    torch.testing.assert_close(out, torch.stack([table[[2, 3]].flatten(), table[[0, 4]].flatten()]))
    single = make("embedding", raw(DiscreteSpec(3, 1)), size=4)
    torch.testing.assert_close(single(torch.tensor([3])), single.table.weight[2:3])


@pytest.mark.parametrize(
    ("kind", "signal", "complaint"),
    [
        (
            "vector",
            Signal("hidden", (4,)),
            "makes a vector of the observation or a part of it; 'hidden' [4] is neither",
        ),
        ("image", raw(BoxSpec((4,)), (4,)), "not 'observation' [4]; for vectors choose policy=mlp"),
        ("image", raw(PARTS), "needs one part of 'observation' {camera, gear, speed}: observation.camera"),
        ("embedding", raw(BoxSpec((4,)), (4,)), "needs a discrete observation"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(make, kind, signal, complaint):
    with pytest.raises(Misfit) as refused:
        make(kind, signal)
    assert complaint in str(refused.value)
