"""Planning by Monte-Carlo tree search with sampled actions (as in Sampled MuZero).

The cost of a node is one move plus the lowest cost of its children; an unexpanded child has the network's prediction.
Selection minimizes the cost minus a PUCT bonus. Where all moves of a state can be listed, all are evaluated and the
children sampled from them (Gumbel noise); otherwise moves are sampled from the policy first.
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
    width: int = 16  # sampled children of a node
    noise: float = 0.3  # scale of the Gumbel noise, in moves
    prior_weight: float = 0.1  # moves per unit of log probability
    exploration: float = 0.5  # PUCT constant, in moves
    max_listed_moves: int = 70_000  # with more moves they are sampled from the policy
    samples: int = 512  # moves sampled from the policy


@dataclass(eq=False)
class Node:
    tensor: Bits  # [A, B, C]
    moves: Moves | None = None  # [children, 3]; None: not expanded
    costs: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # [children] moves left afterwards
    priors: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    visits: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    children: dict[int, Node] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """Current estimate of the moves left."""
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
        self._all_moves: Moves | None = None  # [moves, 3] if they can be listed
        if int(np.prod(self._shape)) <= settings.max_listed_moves:
            self._all_moves = np.indices(self._shape).reshape(3, -1).T + 1

    def play(self, tensor: Bits, max_moves: int) -> tuple[Moves, Bits]:
        """Plays until the tensor is zero or `max_moves` is reached; returns the moves and the residual."""
        node, made = Node(tensor), list[NDArray[np.int64]]()
        while len(made) < max_moves and node.tensor.any():
            for _ in range(self._settings.simulations):
                self._simulate(node, max_moves - len(made))
            best = self._best_child(node)
            assert node.moves is not None
            made.append(node.moves[best])
            node = self._child(node, best)
        return np.array(made, np.int64).reshape(-1, 3), node.tensor

    def _best_child(self, node: Node) -> int:
        if node.moves is None:
            self._expand(node)
        return int(np.lexsort((-node.visits, node.costs))[0])

    def _simulate(self, root: Node, max_moves: int) -> None:
        path: list[tuple[Node, int]] = []
        node = root
        while node.moves is not None and len(path) < max_moves:
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
        indices = self._sample_moves(scores, kinds)
        indices = np.unique(np.append(indices, np.argmin(costs)))  # always keep the best predicted move
        node.moves, node.costs = moves[indices], costs[indices].astype(np.float64)
        weights = np.exp((scores[indices] - scores[indices].max()) / max(self._settings.noise, 1e-3))
        node.priors = (weights / weights.sum()).astype(np.float64)
        node.visits = np.zeros(len(indices), np.int64)

    def _sample_moves(self, scores: NDArray[np.float32], kinds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Half the best of all, half the best of each kind: moves of one kind are often symmetric."""
        noisy = scores + self._settings.noise * self._rng.gumbel(size=len(scores))
        half = min(max(self._settings.width // 2, 1), len(scores))
        best = np.argpartition(-noisy, half - 1)[:half]
        order = np.argsort(-noisy, kind="stable")
        _, firsts = np.unique(kinds[order], return_index=True)
        different = order[np.sort(firsts)[:half]]
        return np.concatenate([best, different])

    @torch.no_grad()
    def _evaluate_moves(self, tensor: Bits) -> tuple[Moves, Floats, Floats, Kinds]:
        """Moves [moves, 3], the predicted cost, log prior and kind of each."""
        features = policy_input(tensor[None], profiles(tensor[None], self._views), self._views)[0].to(
            self._network.device
        )
        if self._all_moves is not None:
            after, kinds = census_of_moves(tensor, self._views)
            logs = self._network.log_priors(features).reshape(-1).cpu().numpy()
            return self._all_moves, self._predict_costs(after)[kinds], logs, kinds
        uniform = torch.from_numpy(self._rng.random((self._settings.samples, 3), np.float32)).to(features.device)
        moves = np.unique(self._network.sample(features, uniform).cpu().numpy() + 1, axis=0)
        children = tensor ^ outer_bits(moves, self._views.sizes)
        after = census(profiles(children, self._views), self._views)
        return moves, self._predict_costs(after), np.zeros(len(moves), np.float32), np.arange(len(moves))

    def _predict_costs(self, after: Counts) -> NDArray[np.float32]:
        """The predicted moves left; zero where the census is that of the zero tensor."""
        costs = self._network.moves_left(torch.from_numpy(after).to(self._network.device)).cpu().numpy().copy()
        costs[after[:, 0] == 1.0] = 0.0
        return costs
