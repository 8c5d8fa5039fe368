import pytest

from palaestra.core.spaces import BoxSpec


@pytest.mark.parametrize(("shape", "size"), [((), 1), ((4,), 4), ((2, 3, 4), 24), ((3, 0), 0)])
def test_the_size_of_a_box_is_the_count_of_its_numbers(shape, size):
    assert BoxSpec(shape).size == size
