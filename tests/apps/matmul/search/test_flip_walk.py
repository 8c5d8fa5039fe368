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


def naive_masks(*sides):
    return to_masks(naive_factorization(Format(*sides), Field.GF2))


@needs_compiler
@pytest.mark.parametrize("sides", [(2, 2, 2), (2, 3, 2), (3, 3, 3)])
@pytest.mark.parametrize("seed", [1, 7, 2**63 + 5])
def test_the_compiled_and_the_python_walk_take_the_same_steps(sides, seed):
    rows = naive_masks(*sides)
    native, python = flip_walk.resume_walk(rows, rows, seed, 0), PythonWalk(rows, rows, seed, 0)
    for _ in range(10):
        assert native.run(150, 40, 2, 0) == python.run(150, 40, 2, 0)
        assert (native.rng_state, native.since_reduction) == (python.rng_state, python.since_reduction)
        assert (native.current, native.best) == (python.current, python.best)


def test_a_resumed_walk_continues_exactly():
    rows = naive_masks(3, 3, 3)
    through = flip_walk.resume_walk(rows, rows, 5, 0)
    pieces = flip_walk.resume_walk(rows, rows, 5, 0)
    for _ in range(5):
        through.run(500, 100, 2, 0)
        pieces.run(500, 100, 2, 0)
        pieces = flip_walk.resume_walk(pieces.current, pieces.best, pieces.rng_state, pieces.since_reduction)
    assert (pieces.current, pieces.rng_state) == (through.current, through.rng_state)


@needs_compiler
@pytest.mark.parametrize("rows", [[], [[0, 1, 1]]])
def test_invalid_schemes_are_refused(rows):
    with pytest.raises(ValueError, match="a scheme has|a row has"):
        flip_walk.resume_walk(rows, rows, 1, 0)


@needs_compiler
def test_the_compiled_walk_releases_the_gil():
    """This thread can reach the barrier only while the other thread is inside its walk."""
    rows = naive_masks(3, 3, 3)
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


def test_without_the_compiled_module_the_python_walk_is_used(monkeypatch):
    monkeypatch.setattr(flip_walk, "IS_COMPILED", False)
    assert isinstance(flip_walk.resume_walk(naive_masks(2, 2, 2), naive_masks(2, 2, 2), 1, 0), PythonWalk)


def signed_school(*sides):
    return to_signed_masks(naive_factorization(Format(*sides), Field.ZT))


@needs_compiler
@pytest.mark.parametrize(("sides", "rank"), [((2, 2, 2), 7), ((2, 2, 3), 11), ((2, 3, 3), 15)])
def test_the_ternary_walk_finds_integer_schemes(sides, rank):
    rows = signed_school(*sides)
    walk = flip_walk.resume_ternary_walk(rows, rows, 1, 0)
    for _ in range(100):
        walk.run(200_000, 5_000, 2, rank, 0.0)
        if walk.best_rank == rank:
            break
    assert verify(from_signed_masks(walk.best, Format(*sides))).rank == rank


@needs_compiler
def test_a_low_temperature_reduces_nonzero_coefficients():
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
def test_invalid_ternary_rows_are_refused(row):
    with pytest.raises(ValueError, match=r"zeros|1 and -1"):
        flip_walk.resume_ternary_walk([row], [row], 1, 0)


def test_without_the_compiled_module_there_is_no_ternary_walk(monkeypatch):
    monkeypatch.setattr(flip_walk, "IS_COMPILED", False)
    assert flip_walk.resume_ternary_walk([], [], 1, 0) is None


def test_without_the_compiled_module_a_cyclic_walk_is_refused(monkeypatch):
    monkeypatch.setattr(flip_walk, "IS_COMPILED", False)
    with pytest.raises(UsageError, match="needs the compiled walk"):
        flip_walk.resume_cyclic_walk([[1, 1, 1]], [[1, 1, 1]], 1, 0)


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_visited_scheme_is_valid(seed):
    walk = PythonWalk(naive_masks(2, 2, 3), naive_masks(2, 2, 3), seed, 0)
    for _ in range(30):
        walk.run(20, 15, 2, 0)
        assert verify(from_masks(walk.current, Format(2, 2, 3)))
        assert verify(from_masks(walk.best, Format(2, 2, 3))).rank == walk.best_rank


def test_the_walk_finds_rank_7():
    walk = PythonWalk(naive_masks(2, 2, 2), naive_masks(2, 2, 2), 1, 0)
    made = walk.run(20_000, 500, 2, 7)
    assert walk.best_rank == 7
    assert made < 20_000


def test_a_plus_never_exceeds_the_margin():
    walk = PythonWalk(naive_masks(2, 2, 2), naive_masks(2, 2, 2), 3, 0)
    for _ in range(200):
        walk.run(1, 1, 2, 0)
        assert walk.rank <= walk.best_rank + 2


@needs_compiler
@pytest.mark.parametrize("bits", [60, 150, 200])
@pytest.mark.parametrize("ring", [Field.GF2, Field.Z3, Field.ZT])
def test_walks_of_several_words_take_the_same_steps(ring, bits):
    rows = naive_masks(2, 3, 2) if ring is Field.GF2 else signed_school(2, 3, 2)
    narrow = flip_walk.resume_walk(rows, rows, 5, 0, ring)
    moved = [[mask << bits for mask in row] for row in rows]
    wide = flip_walk.resume_walk(moved, moved, 5, 0, ring)
    for _ in range(5):
        assert narrow.run(2000, 300, 2, 0) == wide.run(2000, 300, 2, 0)
        assert [[mask >> bits for mask in row] for row in wide.current] == narrow.current
        assert (wide.best_rank, wide.rng_state) == (narrow.best_rank, narrow.rng_state)


@needs_compiler
@pytest.mark.parametrize(("sides", "rank"), [((2, 2, 2), 7), ((2, 2, 3), 11), ((2, 3, 3), 16)])
def test_the_walk_modulo_3_visits_valid_schemes_only(sides, rank):
    rows = signed_school(*sides)
    walk = flip_walk.resume_walk(rows, rows, 1, 0, Field.Z3)
    for _ in range(100):
        walk.run(200_000, 5_000, 2, rank)
        assert verify(from_signed_masks(walk.current, Format(*sides), Field.Z3))
        if walk.best_rank == rank:
            break
    assert verify(from_signed_masks(walk.best, Format(*sides), Field.Z3)).rank == rank


def test_without_the_compiled_module_a_walk_modulo_3_is_refused(monkeypatch):
    monkeypatch.setattr(flip_walk, "IS_COMPILED", False)
    with pytest.raises(UsageError, match="walk over z3 needs"):
        flip_walk.resume_walk(signed_school(2, 2, 2), signed_school(2, 2, 2), 1, 0, Field.Z3)
