"""Prioritised replay: the sum tree, drawing in proportion, importance weights."""

from __future__ import annotations

import numpy as np
import pytest

from palaestra.algorithms.buffers.sum_tree import Priorities, SumTree
from palaestra.algorithms.counter_rng import CounterRng
from palaestra.config.dqn import PrioritizedReplayConfig

CONFIG = PrioritizedReplayConfig(enabled=True, alpha=0.7, beta=0.4, epsilon=0.01)


def filled(values: list[float]) -> SumTree:
    tree = SumTree(len(values))
    tree.set(np.arange(len(values)), np.array(values, np.float64))
    return tree


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 100])
def test_every_node_is_the_sum_of_its_children(size):
    rng = np.random.default_rng(size)
    tree = SumTree(size)
    for _ in range(20):
        indices = rng.integers(0, size, 5)
        tree.set(indices, rng.random(size)[indices])
    assert tree.total == pytest.approx(tree.values(np.arange(size)).sum(), rel=1e-12)
    for node in range(1, tree.leaf_count):
        assert tree.sums[node] == tree.sums[2 * node] + tree.sums[2 * node + 1]


def test_a_mass_falls_into_the_leaf_of_the_cumulative_sum():
    values = [0.5, 0.0, 2.0, 1.0, 0.0, 0.25]
    tree = filled(values)
    masses = np.linspace(0, 3.75, 200, endpoint=False)
    assert np.array_equal(tree.find(masses), np.searchsorted(np.cumsum(values), masses, side="right"))


def test_a_leaf_of_value_zero_is_never_found_even_past_the_end():
    tree = filled([1.0, 0.0, 3.0, 0.0, 0.0])
    assert tree.find(np.array([0.0, 1.0, 3.999, 4.0, 5.0])).tolist() == [0, 2, 2, 2, 2]


def test_sums_do_not_drift():
    """A million changes by differences in float32 would be off in the third digit; here only the last ones matter."""
    rng = np.random.default_rng(3)
    tree = SumTree(1000)
    for _ in range(300):
        tree.set(rng.integers(0, 1000, 500), rng.random(500) * 1e6)
    last = rng.random(1000) * 1e-3
    tree.set(np.arange(1000), last)
    assert tree.total == pytest.approx(last.sum(), rel=1e-12)


def test_a_rebuilt_tree_is_the_same_to_the_last_bit():
    rng = np.random.default_rng(4)
    tree = SumTree(37)
    for _ in range(50):
        tree.set(rng.integers(0, 37, 8), rng.random(8))
    other = SumTree(37)
    other.rebuild(tree.values(np.arange(37)))
    assert np.array_equal(other.sums, tree.sums)


def with_errors(td_errors: list[float]) -> Priorities:
    """One row of environments whose transitions have these errors; the next row is being written."""
    priorities = Priorities(CONFIG, 3, len(td_errors))
    priorities.add_row(0, 1)
    priorities.update(np.arange(len(td_errors)), np.array(td_errors, np.float32))
    return priorities


def test_draws_are_in_proportion_to_the_errors_raised_to_alpha():
    errors = [0.1, -2.0, 0.0, 5.0]
    priorities = with_errors(errors)
    counts = np.zeros(4)
    for index in range(200):
        indices, _ = priorities.draw(CounterRng(1, index), 50, 0.4)
        counts += np.bincount(indices, minlength=12)[:4]
    expected = (np.abs(errors) + 0.01) ** 0.7
    np.testing.assert_allclose(counts / counts.sum(), expected / expected.sum(), atol=0.01)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_undo_the_proportion_and_the_largest_is_one(beta):
    errors = [0.1, -2.0, 0.0, 5.0]
    priorities = with_errors(errors)
    indices, weights = priorities.draw(CounterRng(1, 1), 64, beta)
    chances = (np.abs(errors) + 0.01) ** 0.7
    chances /= chances.sum()
    unscaled = (4 * chances[indices]) ** -beta
    np.testing.assert_allclose(weights, unscaled / unscaled.max(), rtol=1e-5)
    assert weights.max() == 1.0


def test_new_transitions_have_the_largest_priority_so_far():
    priorities = with_errors([0.5, 7.0])
    priorities.update(np.array([1]), np.array([0.2], np.float32))  # the largest is remembered
    priorities.add_row(1, 2)
    largest = (7.0 + 0.01) ** 0.7
    assert priorities.tree.values(np.array([2, 3])) == pytest.approx([largest, largest])
    assert with_errors([0.0, 0.001]).largest == 1.0, "the first ones have 1"


def test_the_row_that_is_being_written_is_never_drawn():
    priorities = Priorities(CONFIG, 3, 2)
    for row in range(7):
        priorities.add_row(row % 3, (row + 1) % 3)
        drawn = {int(at) // 2 for index in range(20) for at in priorities.draw(CounterRng(row, index), 8, 0.4)[0]}
        assert drawn == {row % 3} | ({(row - 1) % 3} if row else set())


def test_priorities_are_restored_whole():
    priorities = with_errors([0.5, 7.0, 1.0])
    saved = priorities.capture()
    other = Priorities(CONFIG, 3, 3)
    other.restore(saved)
    assert np.array_equal(other.tree.sums, priorities.tree.sums)
    assert other.largest == priorities.largest
    priorities.update(np.arange(3), np.array([1.0, 1.0, 1.0], np.float32))
    assert not np.array_equal(other.tree.sums, priorities.tree.sums), "a capture is a copy"
    with pytest.raises(ValueError, match="9 steps, and the buffer has 12"):
        Priorities(CONFIG, 4, 3).restore(saved)
