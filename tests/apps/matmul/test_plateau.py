import numpy as np
import pytest

from palaestra.apps.matmul.agent_demonstrations import target_bits
from palaestra.apps.matmul.contractions import outer_bits
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.masks import from_masks
from palaestra.apps.matmul.plateau import draw_plateau, plateau_lessons
from palaestra.apps.matmul.verification import verify

SMALL = Format(2, 2, 2)


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
