"""The compiled walk and the one in Python take the same steps."""

from __future__ import annotations

import threading

import pytest

from palaestra.apps.matmul.schemes.bit_masks import from_masks, from_signed_masks, to_masks, to_signed_masks
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search import flip_walk
from palaestra.apps.matmul.search.flip_walk import PythonWalk
from palaestra.core.errors import UsageError

needs_compiler = pytest.mark.skipif(not flip_walk.IS_COMPILED, reason="installed without a compiler")


def school(*sides):
    return to_masks(naive_factorization(Format(*sides), Field.GF2))


@needs_compiler
@pytest.mark.parametrize("sides", [(2, 2, 2), (2, 3, 2), (3, 3, 3)])
@pytest.mark.parametrize("seed", [1, 7, 2**63 + 5])
def test_both_walks_are_one_throw_for_throw(sides, seed):
    rows = school(*sides)
    native, python = flip_walk.resume_walk(rows, rows, seed, 0), PythonWalk(rows, rows, seed, 0)
    for _ in range(10):
        assert native.run(150, 40, 2, 0) == python.run(150, 40, 2, 0)
        assert (native.rng_state, native.since_reduction) == (python.rng_state, python.since_reduction)
        assert (native.current, native.best) == (python.current, python.best)


def test_a_walk_that_was_put_away_goes_on_as_if_it_never_stopped():
    rows = school(3, 3, 3)
    through = flip_walk.resume_walk(rows, rows, 5, 0)
    pieces = flip_walk.resume_walk(rows, rows, 5, 0)
    for _ in range(5):
        through.run(500, 100, 2, 0)
        pieces.run(500, 100, 2, 0)
        pieces = flip_walk.resume_walk(pieces.current, pieces.best, pieces.rng_state, pieces.since_reduction)
    assert (pieces.current, pieces.rng_state) == (through.current, through.rng_state)


@needs_compiler
@pytest.mark.parametrize("rows", [[], [[0, 1, 1]]])
def test_what_is_no_scheme_is_refused(rows):
    with pytest.raises(ValueError, match="a scheme has|a row has"):
        flip_walk.resume_walk(rows, rows, 1, 0)


@needs_compiler
def test_python_goes_on_while_a_walk_walks():
    """Python's lock is let go: this thread can stand at the barrier only while the other is inside its walk."""
    rows = school(3, 3, 3)
    walk = flip_walk.resume_walk(rows, rows, 1, 0)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(walk.run(500_000, 1000, 2, 0)))
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    thread.join()
    assert seen == [500_000]
    assert turns > 1000


def test_without_a_compiler_the_walk_is_pythons(monkeypatch):
    monkeypatch.setattr(flip_walk, "IS_COMPILED", False)
    assert isinstance(flip_walk.resume_walk(school(2, 2, 2), school(2, 2, 2), 1, 0), PythonWalk)


def signed_school(*sides):
    return to_signed_masks(naive_factorization(Format(*sides), Field.ZT))


@needs_compiler
@pytest.mark.parametrize(("sides", "rank"), [((2, 2, 2), 7), ((2, 2, 3), 11), ((2, 3, 3), 15)])
def test_the_walk_with_signs_finds_schemes_for_whole_numbers(sides, rank):
    rows = signed_school(*sides)
    walk = flip_walk.resume_ternary_walk(rows, rows, 1, 0)
    for _ in range(100):
        walk.run(200_000, 5_000, 2, rank, 0.0)
        if walk.best_rank == rank:
            break
    assert verify(from_signed_masks(walk.best, Format(*sides))).rank == rank


@needs_compiler
def test_a_cold_walk_has_fewer_coefficients():
    rows = signed_school(3, 3, 3)
    hot = flip_walk.resume_ternary_walk(rows, rows, 5, 0)
    hot.run(300_000, 5_000, 2, 0, 0.0)
    cold = flip_walk.resume_ternary_walk(hot.best, hot.best, 6, 0)
    cold.run(200_000, 10**9, 0, 0, 0.5)
    assert cold.best_rank <= hot.best_rank
    assert cold.weight < hot.weight
    assert verify(from_signed_masks(cold.best, Format(3, 3, 3)))


@needs_compiler
@pytest.mark.parametrize("row", [[0, 0, 1, 0, 1, 0], [1, 1, 1, 0, 1, 0]])
def test_rows_that_cannot_be_are_refused(row):
    with pytest.raises(ValueError, match=r"zeros|1 and -1"):
        flip_walk.resume_ternary_walk([row], [row], 1, 0)


def test_without_a_compiler_there_is_no_walk_with_signs(monkeypatch):
    monkeypatch.setattr(flip_walk, "IS_COMPILED", False)
    assert flip_walk.resume_ternary_walk([], [], 1, 0) is None


def test_without_a_compiler_a_search_among_schemes_that_can_be_turned_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(flip_walk, "IS_COMPILED", False)
    with pytest.raises(UsageError, match="needs the compiled walk"):
        flip_walk.resume_cyclic_walk([[1, 1, 1]], [[1, 1, 1]], 1, 0)


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_scheme_on_the_way_multiplies(seed):
    walk = PythonWalk(school(2, 2, 3), school(2, 2, 3), seed, 0)
    for _ in range(30):
        walk.run(20, 15, 2, 0)
        assert verify(from_masks(walk.current, Format(2, 2, 3)))
        assert verify(from_masks(walk.best, Format(2, 2, 3))).rank == walk.best_rank


def test_it_finds_seven_products():
    walk = PythonWalk(school(2, 2, 2), school(2, 2, 2), 1, 0)
    made = walk.run(20_000, 500, 2, 7)
    assert walk.best_rank == 7
    assert made < 20_000


def test_a_plus_never_leads_further_up_than_the_margin():
    walk = PythonWalk(school(2, 2, 2), school(2, 2, 2), 3, 0)
    for _ in range(200):
        walk.run(1, 1, 2, 0)
        assert walk.rank <= walk.best_rank + 2
