import numpy as np
import pytest
import torch

from palaestra.apps.matmul.agent.census import outer_bits, profiles, views_of
from palaestra.apps.matmul.agent.mcts import Node, Planner, PlannerSettings
from palaestra.apps.matmul.agent.network import AgentNetwork
from palaestra.apps.matmul.schemes.factorization import Format

SMALL = Format(2, 2, 2)
VIEWS = views_of(SMALL)


class Oracle(AgentNetwork):
    """Predicts the rank from the bound that the profile of a sum of R products is at most 8 R in total."""

    def moves_left(self, features):
        ranks = torch.arange(5, dtype=torch.float32)
        sums = (features.reshape(-1, 3, 5) * ranks).sum(dim=2) * 15 / 8
        return sums.max(dim=1).values


def planner(network=None, seed=1, **settings):
    torch.manual_seed(1)
    made = network or AgentNetwork(VIEWS, 8, 16)
    return Planner(made, VIEWS, PlannerSettings(**settings), np.random.default_rng(seed))


def summed(moves):
    return np.bitwise_xor.reduce(outer_bits(np.array(moves), SMALL.sizes), axis=0)


@pytest.mark.parametrize("max_listed_moves", [70_000, 0])
def test_a_single_product_is_solved_in_one_move(max_listed_moves):
    tensor = summed([[3, 5, 9]])
    moves, left = planner(max_listed_moves=max_listed_moves, samples=20_000).play(tensor, 4)
    assert not left.any()
    assert (tensor == summed(moves)).all()
    if max_listed_moves:
        assert moves.tolist() == [[3, 5, 9]]


def test_with_exact_values_sums_are_solved_optimally():
    rng = np.random.default_rng(2)
    for _ in range(5):
        parts = rng.integers(1, 16, (3, 3))
        moves, left = planner(Oracle(VIEWS, 8, 16), simulations=8, noise=0.05).play(summed(parts), 6)
        assert not left.any()
        assert len(moves) <= 3


def test_moves_and_residual_sum_to_the_tensor():
    tensor = np.random.default_rng(5).integers(0, 2, (4, 4, 4), dtype=np.uint8)
    moves, left = planner(simulations=2).play(tensor, 3)
    assert len(moves) == 3
    assert (summed(moves) ^ left == tensor).all()


def test_planning_is_deterministic_for_a_seed():
    tensor = np.random.default_rng(6).integers(0, 2, (4, 4, 4), dtype=np.uint8)
    first, again, other = (planner(seed=seed, simulations=3, noise=2.0).play(tensor, 3)[0] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_a_nodes_cost_is_one_more_than_its_best_childs():
    plan = planner(simulations=6)
    node = Node(summed([[1, 2, 3], [4, 5, 6], [7, 8, 9]]))
    for _ in range(6):
        plan._simulate(node, 5)
    assert node.cost == 1 + node.costs.min()
    assert node.visits.sum() == 5  # the first simulation expanded the node itself
    for index, child in node.children.items():
        if child.moves is not None:
            assert node.costs[index] == pytest.approx(child.cost)


def test_a_zero_tensor_needs_no_moves():
    moves, left = planner().play(np.zeros((4, 4, 4), np.uint8), 3)
    assert len(moves) == 0
    assert not left.any()
    assert profiles(left[None], VIEWS)[0].sum() == 0
