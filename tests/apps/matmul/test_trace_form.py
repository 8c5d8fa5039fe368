from itertools import permutations

import numpy as np
import pytest

from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.trace_form import from_trace_form, trace_form, turned_to
from palaestra.apps.matmul.verification import verify
from palaestra.core.errors import UsageError


def test_the_scheme_is_the_trace_of_a_product_of_three():
    x, y, z = trace_form(schoolbook(Format(2, 3, 4), Field.Z))
    dice = np.random.default_rng(0)
    a, b, c = (dice.integers(-5, 5, shape) for shape in ((2, 3), (3, 4), (4, 2)))
    forms = [(factor * matrix).sum(axis=(1, 2)) for factor, matrix in ((x, a), (y, b), (z, c))]
    assert np.prod(forms, axis=0).sum() == sum(
        a[i, j] * b[j, k] * c[k, i] for i in range(2) for j in range(3) for k in range(4)
    )


@pytest.mark.parametrize("sides", list(permutations((2, 3, 4))))
def test_a_scheme_turned_to_other_sides_multiplies_those(sides):
    claim = schoolbook(Format(2, 3, 4), Field.Z)
    assert verify(turned_to(claim, Format(*sides))).format == Format(*sides)


def test_a_scheme_cannot_be_turned_to_other_lengths():
    with pytest.raises(UsageError):
        turned_to(schoolbook(Format(2, 3, 4), Field.Z), Format(2, 3, 5))


def test_the_way_back_is_the_way_there_turned_around(strassen):
    back = from_trace_form(*trace_form(strassen))
    assert all((one == other).all() for one, other in zip(back, strassen.factors, strict=True))
