import numpy as np
import pytest

from palaestra.apps.matmul.agent_demonstrations import target_bits
from palaestra.apps.matmul.bridge import completion, from_another_side, proposal, scheme_lessons
from palaestra.apps.matmul.contractions import outer_bits
from palaestra.apps.matmul.factorization import Factorization, modulo_2, schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.game import slice_rank
from palaestra.apps.matmul.masks import from_masks, to_masks
from palaestra.apps.matmul.symmetry import are_one
from palaestra.apps.matmul.verification import NotAnAlgorithm, verify

SMALL = Format(2, 2, 2)


def summed(moves, sizes=(4, 4, 4)):
    return np.bitwise_xor.reduce(outer_bits(np.array(moves), sizes), axis=0)


def test_a_scheme_from_another_side_multiplies_and_is_the_same_scheme(strassen_bits):
    dice = np.random.default_rng(1)
    seen = [from_another_side(strassen_bits, dice) for _ in range(30)]
    assert all(are_one(verify(strassen_bits), verify(other)) for other in seen[:5])
    assert all(verify(other).rank == 7 for other in seen)
    assert len({str(sorted(to_masks(other))) for other in seen}) > 10


def test_formats_with_different_sides_keep_their_format():
    dice = np.random.default_rng(2)
    claim = schoolbook(Format(2, 3, 4), Field.GF2)
    assert verify(from_another_side(claim, dice)).format == Format(2, 3, 4)


def test_lessons_of_a_scheme_are_parts_of_it(strassen_bits):
    lessons = scheme_lessons([to_masks(strassen_bits)], SMALL, 60, np.random.default_rng(3))
    whole = lessons.remaining == 7
    assert whole.any()
    assert (lessons.tensors[whole] == target_bits(SMALL)).all()
    single = lessons.remaining == 1
    assert single.any()
    left = lessons.tensors ^ outer_bits(lessons.moves, SMALL.sizes)
    assert not left[single].any()


@pytest.mark.parametrize("format_", [SMALL, Format(2, 3, 3)])
def test_what_is_left_is_completed_with_as_many_moves_as_its_slices_cost(format_):
    dice = np.random.default_rng(4)
    for _ in range(10):
        left = dice.integers(0, 2, format_.sizes, dtype=np.uint8)
        moves = completion(left)
        assert (summed(moves, format_.sizes) == left).all()
        assert len(moves) == slice_rank(left.astype(np.int64), Field.GF2)


def test_nothing_left_needs_no_move():
    assert completion(np.zeros((4, 4, 4), np.uint8)).shape == (0, 3)


def test_double_rows_of_a_proposal_cancel(strassen_bits):
    masks = to_masks(strassen_bits)
    double = from_masks([*masks, [1, 2, 3], [1, 2, 3]], SMALL)
    assert sorted(proposal(double)) == sorted(masks)


def test_a_proposal_that_does_not_multiply_is_refused(strassen_bits):
    with pytest.raises(NotAnAlgorithm):
        proposal(from_masks(to_masks(strassen_bits)[:6], SMALL))


def test_whole_coefficients_hold_modulo_2(strassen):
    assert verify(modulo_2(strassen)).rank == 7
    doubled = Factorization(SMALL, Field.Z, *(np.concatenate([f, 2 * f[:1]]) for f in strassen.factors))
    assert modulo_2(doubled).rank == 7
