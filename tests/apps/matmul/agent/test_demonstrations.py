from __future__ import annotations

import numpy as np
import pytest

from palaestra.apps.matmul.agent.census import census, outer_bits, profiles, views_of
from palaestra.apps.matmul.agent.demonstrations import (
    Lessons,
    draw_lessons,
    draw_plateau,
    joined,
    plateau_lessons,
    target_bits,
    target_census,
    without_target,
)
from palaestra.apps.matmul.schemes.bit_masks import from_masks, to_masks
from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.transformations import change_bases, random_base
from palaestra.apps.matmul.schemes.verification import verify

SMALL = Format(2, 2, 2)


def test_a_lesson_of_one_product_is_solved_by_its_move():
    lessons = draw_lessons(SMALL, 200, 7, np.random.default_rng(1))
    single = lessons.remaining == 1
    assert single.sum() > 10
    left = lessons.tensors ^ outer_bits(lessons.moves, SMALL.sizes)
    assert not left[single].any()
    assert lessons.are_good.all()


def test_a_move_leaves_a_sum_of_one_product_less():
    lessons = draw_lessons(SMALL, 400, 3, np.random.default_rng(2))
    left = lessons.tensors ^ outer_bits(lessons.moves, SMALL.sizes)
    profile = profiles(left, views_of(SMALL))[0].sum(axis=1)
    assert (profile <= 8 * (lessons.remaining - 1)).all()


def test_the_target_is_no_lesson_in_whatever_basis_it_comes():
    dice = np.random.default_rng(3)
    target = target_bits(SMALL)
    moved = [
        change_bases(target.astype(np.int64), tuple(random_base(4, Field.GF2, dice) for _ in range(3)), Field.GF2)
        for _ in range(20)
    ]
    planted = np.array([target, *moved], np.uint8)
    count = len(planted)
    lessons = Lessons(planted, np.ones((count, 3), np.int64), np.full(count, 7), np.ones(count, bool))
    assert len(without_target(lessons, views_of(SMALL), target_census(SMALL))) == 0


def test_no_lesson_is_the_sum_of_a_whole_scheme(strassen_bits):
    rows = np.array(to_masks(strassen_bits), np.int64)
    whole = np.bitwise_xor.reduce(outer_bits(rows, SMALL.sizes), axis=0)
    lessons = draw_lessons(SMALL, 2_000, 7, np.random.default_rng(4))
    views = views_of(SMALL)
    seen = census(profiles(lessons.tensors, views), views)
    assert not (seen == census(profiles(whole[None], views), views)).all(axis=1).any()


def test_lessons_are_joined_and_chosen_row_by_row():
    first, second = (draw_lessons(SMALL, 5, 4, np.random.default_rng(seed)) for seed in (1, 2))
    both = joined([first, second])
    assert len(both) == len(first) + len(second)
    last = both.chosen(slice(-1, None))
    assert (last.tensors == second.tensors[-1:]).all()
    assert (last.moves == second.moves[-1:]).all()


@pytest.mark.parametrize("format_", [SMALL, Format(2, 2, 3)])
def test_every_scheme_multiplies_and_none_is_better_than_the_schoolbook(format_):
    schemes = draw_plateau(format_, 12, np.random.default_rng(1))
    assert {verify(from_masks(scheme.tolist(), format_)).rank for scheme in schemes} == {format_.schoolbook_rank}
    assert len({str(sorted(scheme.tolist())) for scheme in schemes}) > 6


def test_a_lesson_is_a_part_of_a_scheme_with_one_of_its_rows():
    dice = np.random.default_rng(2)
    schemes = draw_plateau(SMALL, 5, dice)
    lessons = plateau_lessons(schemes, SMALL.sizes, 200, dice)
    rows = {tuple(row) for scheme in schemes.tolist() for row in scheme}
    assert all(tuple(move) in rows for move in lessons.moves.tolist())
    assert (lessons.tensors[lessons.remaining == 8] == target_bits(SMALL)).all()
    left = lessons.tensors ^ outer_bits(lessons.moves, SMALL.sizes)
    assert not left[lessons.remaining == 1].any()
    assert set(lessons.remaining.tolist()) == set(range(1, 9))


def test_the_same_dice_walk_the_same_plateau():
    first, again = (draw_plateau(SMALL, 4, np.random.default_rng(3)) for _ in range(2))
    assert (first == again).all()
