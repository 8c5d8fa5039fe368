import pytest

from palaestra.runner.stragglers import WINDOW, Straggler, StragglerWatch


def told(rows):
    watch = StragglerWatch()
    return [found for found in map(watch.look, rows) if found is not None]


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_who_takes_twice_as_long_for_a_whole_window_is_told_once(slow):
    row = tuple(0.5 if rank == slow else 0.1 for rank in range(3))
    assert told([row] * (WINDOW - 1)) == []
    assert told([row] * 5 * WINDOW) == [Straggler(slow, 0.5, 0.1)]


def test_two_stragglers_one_after_the_other_are_both_told():
    assert [one.rank for one in told([(0.5, 0.1)] * WINDOW + [(0.1, 0.5)] * WINDOW)] == [0, 1]


def test_a_few_slow_iterations_make_no_straggler():
    rows = [(9.0, 0.1)] * (WINDOW // 2 - 1) + [(0.1, 0.1)] * (WINDOW // 2 + 1)
    assert told(rows * 3) == []


@pytest.mark.parametrize("row", [(0.2, 0.1), (0.19, 0.1), (0.06, 0.01), (0.1, 0.1), (5.0,), ()])
def test_alike_ranks_tiny_differences_and_a_lonely_process_are_left_in_peace(row):
    assert told([row] * 3 * WINDOW) == []


def test_just_beyond_the_bounds_a_rank_is_told():
    assert told([(0.2001, 0.1)] * WINDOW) == [Straggler(0, 0.2001, 0.1)]
    assert told([(0.0701, 0.02)] * WINDOW) == [Straggler(0, 0.0701, 0.02)]


def test_the_others_are_judged_by_their_middle():
    """One idle rank does not make a straggler of a normal one."""
    assert told([(0.3, 0.29, 0.01)] * WINDOW) == []


def test_a_straggler_is_told_with_both_numbers_and_what_to_look_at():
    text = str(Straggler(3, 0.5, 0.123))
    assert "Rank 3 is slow" in text
    assert "0.50 s" in text
    assert "0.12 s" in text
    assert "Look at its machine" in text
