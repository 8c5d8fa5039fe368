import pytest

from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec
from palaestra.policies.components.base import Misfit, Signal, one_vector, refuse_raw

BYTES = BoxSpec((3, 4, 4), "uint8", (0.0,), (255.0,))
PARTS = DictSpec((("camera", BYTES), ("speed", BoxSpec((2,)))))


def test_a_signal_names_itself_with_its_shape_or_its_parts():
    assert str(Signal("hidden", (64,))) == "'hidden' [64]"
    assert str(Signal("observation", (), PARTS)) == "'observation' {camera, speed}"


def test_only_floats_can_be_multiplied():
    assert Signal("a", (3,)).is_real
    assert Signal("a", (3,), BoxSpec((3,))).is_real
    assert not Signal("a", (3, 4, 4), BYTES).is_real
    assert not Signal("a", (), DiscreteSpec(3)).is_real


@pytest.mark.parametrize(
    ("signal", "complaint"),
    [
        (
            Signal("observation", (3, 4, 4), BYTES),
            "bytes of 'observation' [3, 4, 4]; put an image or a vector node in front",
        ),
        (
            Signal("observation", (), DiscreteSpec(3)),
            "choices of 'observation' []; put an embedding or a vector node in front",
        ),
        (Signal("observation", (), PARTS), "choose one (observation.camera, observation.speed)"),
    ],
)
def test_raw_numbers_are_refused_with_what_to_put_in_front(signal, complaint):
    with pytest.raises(Misfit) as refused:
        refuse_raw(signal)
    assert complaint in str(refused.value)


def test_a_vector_is_wanted_not_a_picture():
    assert one_vector((Signal("flat", (7,)),)) == 7
    with pytest.raises(Misfit, match=r"needs a vector, not 'conv1' \[8, 3, 3\]; put a flatten node"):
        one_vector((Signal("conv1", (8, 3, 3)),))
