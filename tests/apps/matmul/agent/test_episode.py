from __future__ import annotations

import json

import numpy as np
import pytest

from palaestra.apps.matmul.agent.census import outer_bits
from palaestra.apps.matmul.agent.config import GameSettings
from palaestra.apps.matmul.agent.demonstrations import target_bits
from palaestra.apps.matmul.agent.episode import (
    Played,
    completion,
    encode_played,
    from_another_side,
    play_episode,
    proposal,
    scheme_lessons,
)
from palaestra.apps.matmul.agent.tensor_game import slice_rank
from palaestra.apps.matmul.schemes.bit_masks import from_masks, to_masks
from palaestra.apps.matmul.schemes.factorization import Factorization, Format, modulo_2, schoolbook
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.symmetry import are_one
from palaestra.apps.matmul.schemes.verification import NotAnAlgorithm, verify

SMALL = Format(2, 2, 2)


class Script:
    """A planner that knows its moves by heart."""

    def __init__(self, moves):
        self.moves = np.array(moves, np.int64).reshape(-1, 3)

    def play(self, tensor, most_moves):
        made = self.moves[:most_moves]
        return made, tensor ^ np.bitwise_xor.reduce(outer_bits(made, SMALL.sizes), axis=0)


def test_a_solved_episode_costs_its_moves_and_teaches_them(strassen_bits):
    masks = to_masks(strassen_bits)
    played, lessons = play_episode(Script(masks), GameSettings(max_rank=7), 5)
    assert (played.is_solved, played.moves, played.residual, played.reward) == (True, 7, 0, -7.0)
    assert sorted(played.scheme) == sorted(masks)
    assert lessons.remaining.tolist() == [7, 6, 5, 4, 3, 2, 1]
    assert lessons.are_good.all()
    assert (lessons.tensors[0] == target_bits(SMALL)).all()
    last = lessons.tensors[-1] ^ outer_bits(lessons.moves[-1:], SMALL.sizes)[0]
    assert not last.any()


def test_an_episode_out_of_moves_is_completed_to_a_scheme_that_multiplies():
    school = [[1, 1, 1], [2, 4, 1], [15, 15, 15]]
    played, lessons = play_episode(Script(school), GameSettings(max_rank=3), 5)
    assert not played.is_solved
    assert played.residual > 0
    assert verify(from_masks(played.scheme, SMALL)).rank == -played.reward
    assert lessons.remaining.tolist() == [-played.reward, -played.reward - 1, -played.reward - 2]
    assert not lessons.are_good.any()


@pytest.mark.parametrize("seed", [1, 2])
def test_in_another_basis_the_scheme_is_still_one_of_the_products_own(seed):
    played, _ = play_episode(Script([[1, 2, 3]]), GameSettings(max_rank=1, change_of_basis=True), seed)
    assert verify(from_masks(played.scheme, SMALL)).rank == len(played.scheme)


def test_an_episode_travels_between_processes_as_json():
    played = Played(2**62, 7, 0, -7.0, [[1, 2, 3]])
    assert Played(**json.loads(json.dumps(encode_played(played)))) == played


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
