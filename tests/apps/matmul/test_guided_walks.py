import pytest

from palaestra.apps.matmul import guided_walks
from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.guided_walks import FEATURES, IS_COMPILED, RANDOM, begin_guided
from palaestra.apps.matmul.masks import to_masks
from palaestra.apps.matmul.python_guided import PythonGuidedWalk

compiled_only = pytest.mark.skipif(not IS_COMPILED, reason="no compiler has been here")
WEIGHTS = (3.0, -0.5, 0.2, -0.1, 2.0, -3.0, -2.0)


def school(*sides):
    return to_masks(schoolbook(Format(*sides), Field.GF2))


@compiled_only
@pytest.mark.parametrize("weights", [RANDOM, WEIGHTS])
@pytest.mark.parametrize("sides", [(2, 2, 2), (2, 3, 3)])
def test_the_compiled_walk_takes_the_steps_of_the_one_in_python(weights, sides):
    compiled, plain = begin_guided(school(*sides), weights, 77), PythonGuidedWalk(school(*sides), weights, 77)
    for _ in range(6):
        assert compiled.features() == plain.features()
        assert compiled.go(20, 0) == plain.go(20, 0)
        assert compiled.current == plain.current
        assert compiled.dice == plain.dice


@compiled_only
def test_damaged_schemes_and_flips_are_refused_at_the_door():
    with pytest.raises(ValueError, match="rows"):
        begin_guided([], RANDOM, 1)
    with pytest.raises(ValueError, match="nothing"):
        begin_guided([[0, 1, 1]], RANDOM, 1)
    with pytest.raises(IndexError):
        begin_guided(school(2, 2, 2), RANDOM, 1).take(24)


def test_without_a_compiler_the_walk_in_python_serves(monkeypatch):
    monkeypatch.setattr(guided_walks, "IS_COMPILED", False)
    walk = begin_guided(school(2, 2, 2), RANDOM, 1)
    assert isinstance(walk, PythonGuidedWalk)
    assert len(walk.features()[0]) == len(FEATURES)
