import numpy as np
import pytest

from palaestra.apps.matmul.bases import change_back, change_bases, random_base, standard_base
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.verification import product_tensor


@pytest.mark.parametrize("field", [Field.GF2, Field.ZT])
@pytest.mark.parametrize("size", [1, 2, 4, 9])
def test_a_base_and_its_inverse_undo_each_other(field, size):
    dice = np.random.default_rng(5)
    for _ in range(20):
        base = random_base(size, field, dice)
        product = base.matrix @ base.inverse
        assert ((product % 2 if field is Field.GF2 else product) == np.eye(size)).all()


def test_every_base_of_two_bits_is_drawn():
    dice = np.random.default_rng(1)
    drawn = {random_base(2, Field.GF2, dice).matrix.tobytes() for _ in range(300)}
    assert len(drawn) == 6  # (4 - 1) * (4 - 2) invertible matrices of two bits


def test_the_standard_base_changes_nothing(strassen):
    tensor = product_tensor(strassen.format)
    bases = tuple(standard_base(4) for _ in range(3))
    assert (change_bases(tensor, bases, Field.ZT) == tensor).all()


def test_factors_found_in_other_bases_come_back_as_they_were(strassen):
    dice = np.random.default_rng(2)
    base = random_base(4, Field.ZT, dice)
    moved = strassen.u @ base.matrix.T
    assert (moved != strassen.u).any()
    assert (change_back(moved, base, Field.ZT) == strassen.u).all()
