import pytest

from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.masks import from_masks, to_masks
from palaestra.core.errors import UsageError


def test_masks_and_back_are_the_same_scheme(strassen_bits):
    back = from_masks(to_masks(strassen_bits), strassen_bits.format)
    assert all((one == other).all() for one, other in zip(back.factors, strassen_bits.factors, strict=True))


def test_entry_k_is_bit_k(strassen_bits):
    assert to_masks(strassen_bits)[0] == [0b1001, 0b1001, 0b1001]


def test_all_sixty_four_bits_are_used():
    masks = to_masks(schoolbook(Format(8, 8, 8), Field.GF2))
    assert max(max(row) for row in masks) == 1 << 63
    assert from_masks(masks, Format(8, 8, 8)).rank == 512


def test_a_matrix_with_more_entries_is_refused():
    with pytest.raises(UsageError, match="9x8x8"):
        to_masks(schoolbook(Format(9, 8, 8), Field.GF2))
