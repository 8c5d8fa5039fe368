"""Planning by a sampled tree search: in each state a few moves are drawn, the good ones more often, and looked into.

A node's worth is one move plus the least worth of its children; a child that was not looked into has the network's
guess. What is looked into next: the least worth, less a bonus for a good chance and few visits. When every move of a
state can be listed, all are judged and the sample is drawn from all; else from what the policy says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.apps.matmul.agent.census import Bits, Counts, Views, census, census_of_moves, outer_bits, profiles
from palaestra.apps.matmul.agent.network import policy_input

if TYPE_CHECKING:
    from palaestra.apps.matmul.agent.demonstrations import Moves
    from palaestra.apps.matmul.agent.network import AgentNetwork


Floats = NDArray[np.float32]
Kinds = NDArray[np.int64]  # moves with the same census afterwards share a number


@dataclass(frozen=True)
class PlannerSettings:
    simulations: int = 24  # before each move
    width: int = 16  # moves drawn in each state
    noise: float = 0.3  # how far the draw departs from the best, in moves
    prior_weight: float = 0.1  # moves that one unit of log chance is worth
    exploration: float = 0.5  # moves that a chance of one is worth on the first visit
    max_listed: int = 70_000  # beyond so many moves of a state they are sampled from the policy
    samples: int = 512  # so many then


@dataclass(eq=False)
class Node:
    tensor: Bits  # [A, B, C]
    moves: Moves | None = None  # [children, 3]; None: not looked into
    costs: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # [children] moves left after it
    priors: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    visits: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    children: dict[int, Node] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """Moves left, by what is known now."""
        return 1.0 + float(self.costs.min())


class Planner:
    def __init__(
        self, network: AgentNetwork, views: Views, settings: PlannerSettings, rng: np.random.Generator
    ) -> None:
        self._network = network
        self._views = views
        self._settings = settings
        self._rng = rng
        counts = [(1 << size) - 1 for size in views.sizes]
        self._shape = (counts[0], counts[1], counts[2])
        self._every: Moves | None = None  # [moves, 3], where they can be listed
        if int(np.prod(self._shape)) <= settings.max_listed:
            self._every = np.indices(self._shape).reshape(3, -1).T + 1

    def play(self, tensor: Bits, most_moves: int) -> tuple[Moves, Bits]:
        """Moves until nothing is left or there are no more; and what is left."""
        node, made = Node(tensor), list[NDArray[np.int64]]()
        while len(made) < most_moves and node.tensor.any():
            for _ in range(self._settings.simulations):
                self._simulate(node, most_moves - len(made))
            best = self._best_child(node)
            assert node.moves is not None
            made.append(node.moves[best])
            node = self._child(node, best)
        return np.array(made, np.int64).reshape(-1, 3), node.tensor

    def _best_child(self, node: Node) -> int:
        if node.moves is None:
            self._expand(node)
        return int(np.lexsort((-node.visits, node.costs))[0])

    def _simulate(self, root: Node, most_moves: int) -> None:
        path: list[tuple[Node, int]] = []
        node = root
        while node.moves is not None and len(path) < most_moves:
            bonus = node.priors * np.sqrt(1.0 + node.visits.sum()) / (1.0 + node.visits)
            chosen = int(np.argmin(node.costs - self._settings.exploration * bonus))
            path.append((node, chosen))
            node = self._child(node, chosen)
            if not node.tensor.any():
                break
        cost = 0.0
        if node.tensor.any():
            if node.moves is None:
                self._expand(node)
            cost = node.cost
        for parent, chosen in reversed(path):
            parent.visits[chosen] += 1
            parent.costs[chosen] = cost
            cost = parent.cost

    def _child(self, node: Node, index: int) -> Node:
        if index not in node.children:
            assert node.moves is not None
            taken = outer_bits(node.moves[index : index + 1], self._views.sizes)[0]
            node.children[index] = Node(node.tensor ^ taken)
        return node.children[index]

    def _expand(self, node: Node) -> None:
        moves, costs, logs, kinds = self._evaluate_moves(node.tensor)
        scores = -costs + self._settings.prior_weight * logs
        kept = self._sample_moves(scores, kinds)
        kept = np.unique(np.append(kept, np.argmin(costs)))  # a move that solves is never missed
        node.moves, node.costs = moves[kept], costs[kept].astype(np.float64)
        weights = np.exp((scores[kept] - scores[kept].max()) / max(self._settings.noise, 1e-3))
        node.priors = (weights / weights.sum()).astype(np.float64)
        node.visits = np.zeros(len(kept), np.int64)

    def _sample_moves(self, scores: NDArray[np.float32], kinds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Half of them the best of all, half the best of each kind: two of one kind are often one move, turned."""
        noisy = scores + self._settings.noise * self._rng.gumbel(size=len(scores))
        half = min(max(self._settings.width // 2, 1), len(scores))
        best = np.argpartition(-noisy, half - 1)[:half]
        order = np.argsort(-noisy, kind="stable")
        _, firsts = np.unique(kinds[order], return_index=True)
        different = order[np.sort(firsts)[:half]]
        return np.concatenate([best, different])

    @torch.no_grad()
    def _evaluate_moves(self, tensor: Bits) -> tuple[Moves, Floats, Floats, Kinds]:
        """Moves [moves, 3], the moves left after each, the logarithm of the policy's chance of it, and its kind."""
        seen = policy_input(tensor[None], profiles(tensor[None], self._views), self._views)[0].to(self._network.device)
        if self._every is not None:
            after, kinds = census_of_moves(tensor, self._views)
            logs = self._network.log_priors(seen).reshape(-1).cpu().numpy()
            return self._every, self._predict_costs(after)[kinds], logs, kinds
        throws = torch.from_numpy(self._rng.random((self._settings.samples, 3), np.float32)).to(seen.device)
        moves = np.unique(self._network.sample(seen, throws).cpu().numpy() + 1, axis=0)
        children = tensor ^ outer_bits(moves, self._views.sizes)
        after = census(profiles(children, self._views), self._views)
        return moves, self._predict_costs(after), np.zeros(len(moves), np.float32), np.arange(len(moves))

    def _predict_costs(self, after: Counts) -> NDArray[np.float32]:
        """The network's guess; zero where the census says that nothing is left."""
        costs = self._network.moves_left(torch.from_numpy(after).to(self._network.device)).cpu().numpy().copy()
        costs[after[:, 0] == 1.0] = 0.0
        return costs
