from dataclasses import replace

import pytest

from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.signed_masks import from_signed_masks, to_signed_masks
from palaestra.core.errors import UsageError


def test_masks_hold_the_whole_scheme(strassen):
    masks = to_signed_masks(strassen)
    assert masks[5] == [0b0100, 0b0001, 0b0011, 0, 0b1000, 0]  # (a21 - a11)(b11 + b12) to c22
    back = from_signed_masks(masks, strassen.format)
    assert all((one == other).all() for one, other in zip(back.factors, strassen.factors, strict=True))


def test_larger_coefficients_do_not_fit(strassen):
    with pytest.raises(UsageError, match="coefficient is 2"):
        to_signed_masks(replace(strassen, field=Field.Z, u=2 * strassen.u))
