import pytest

from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.masks import from_masks, to_masks
from palaestra.apps.matmul.python_walk import PythonWalk
from palaestra.apps.matmul.verification import verify


def school(*sides):
    return to_masks(schoolbook(Format(*sides), Field.GF2))


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_scheme_on_the_way_multiplies(seed):
    walk = PythonWalk(school(2, 2, 3), school(2, 2, 3), seed, 0)
    for _ in range(30):
        walk.go(20, 15, 2, 0)
        assert verify(from_masks(walk.current, Format(2, 2, 3)))
        assert verify(from_masks(walk.best, Format(2, 2, 3))).rank == walk.best_rank


def test_it_finds_seven_products():
    walk = PythonWalk(school(2, 2, 2), school(2, 2, 2), 1, 0)
    made = walk.go(20_000, 500, 2, 7)
    assert walk.best_rank == 7
    assert made < 20_000


def test_a_plus_never_leads_further_up_than_the_margin():
    walk = PythonWalk(school(2, 2, 2), school(2, 2, 2), 3, 0)
    for _ in range(200):
        walk.go(1, 1, 2, 0)
        assert walk.rank <= walk.best_rank + 2
