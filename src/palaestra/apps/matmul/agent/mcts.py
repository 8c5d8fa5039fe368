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


@dataclass(frozen=True)
class Planning:
    simulations: int = 24  # before each move
    width: int = 16  # moves drawn in each state
    noise: float = 0.3  # how far the draw departs from the best, in moves
    prior_weight: float = 0.1  # moves that one unit of log chance is worth
    exploration: float = 0.5  # moves that a chance of one is worth on the first visit
    most_listed: int = 70_000  # beyond so many moves of a state they are sampled from the policy
    samples: int = 512  # so many then


@dataclass(eq=False)
class Node:
    tensor: Bits  # [A, B, C]
    moves: Moves | None = None  # [children, 3]; None: not looked into
    worths: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # [children] moves left after it
    chances: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    visits: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    children: dict[int, Node] = field(default_factory=dict)

    @property
    def worth(self) -> float:
        """Moves left, by what is known now."""
        return 1.0 + float(self.worths.min())


class Planner:
    def __init__(self, network: AgentNetwork, views: Views, planning: Planning, dice: np.random.Generator) -> None:
        self._network = network
        self._views = views
        self._planning = planning
        self._dice = dice
        counts = [(1 << size) - 1 for size in views.sizes]
        self._shape = (counts[0], counts[1], counts[2])
        self._every: Moves | None = None  # [moves, 3], where they can be listed
        if int(np.prod(self._shape)) <= planning.most_listed:
            self._every = np.indices(self._shape).reshape(3, -1).T + 1

    def play(self, tensor: Bits, most_moves: int) -> tuple[Moves, Bits]:
        """Moves until nothing is left or there are no more; and what is left."""
        node, made = Node(tensor), list[NDArray[np.int64]]()
        while len(made) < most_moves and node.tensor.any():
            for _ in range(self._planning.simulations):
                self._simulate(node, most_moves - len(made))
            best = self._most_promising(node)
            assert node.moves is not None
            made.append(node.moves[best])
            node = self._child(node, best)
        return np.array(made, np.int64).reshape(-1, 3), node.tensor

    def _most_promising(self, node: Node) -> int:
        if node.moves is None:
            self._look_into(node)
        return int(np.lexsort((-node.visits, node.worths))[0])

    def _simulate(self, root: Node, most_moves: int) -> None:
        path: list[tuple[Node, int]] = []
        node = root
        while node.moves is not None and len(path) < most_moves:
            bonus = node.chances * np.sqrt(1.0 + node.visits.sum()) / (1.0 + node.visits)
            chosen = int(np.argmin(node.worths - self._planning.exploration * bonus))
            path.append((node, chosen))
            node = self._child(node, chosen)
            if not node.tensor.any():
                break
        worth = 0.0
        if node.tensor.any():
            if node.moves is None:
                self._look_into(node)
            worth = node.worth
        for parent, chosen in reversed(path):
            parent.visits[chosen] += 1
            parent.worths[chosen] = worth
            worth = parent.worth

    def _child(self, node: Node, index: int) -> Node:
        if index not in node.children:
            assert node.moves is not None
            taken = outer_bits(node.moves[index : index + 1], self._views.sizes)[0]
            node.children[index] = Node(node.tensor ^ taken)
        return node.children[index]

    def _look_into(self, node: Node) -> None:
        moves, worths, logs, kinds = self._judged(node.tensor)
        scores = -worths + self._planning.prior_weight * logs
        kept = self._drawn(scores, kinds)
        kept = np.unique(np.append(kept, np.argmin(worths)))  # a move that solves is never missed
        node.moves, node.worths = moves[kept], worths[kept].astype(np.float64)
        weights = np.exp((scores[kept] - scores[kept].max()) / max(self._planning.noise, 1e-3))
        node.chances = (weights / weights.sum()).astype(np.float64)
        node.visits = np.zeros(len(kept), np.int64)

    def _drawn(self, scores: NDArray[np.float32], kinds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Half of them the best of all, half the best of each kind: two of one kind are often one move, turned."""
        noisy = scores + self._planning.noise * self._dice.gumbel(size=len(scores))
        half = min(max(self._planning.width // 2, 1), len(scores))
        best = np.argpartition(-noisy, half - 1)[:half]
        order = np.argsort(-noisy, kind="stable")
        _, firsts = np.unique(kinds[order], return_index=True)
        different = order[np.sort(firsts)[:half]]
        return np.concatenate([best, different])

    @torch.no_grad()
    def _judged(self, tensor: Bits) -> tuple[Moves, NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
        """Moves [moves, 3], the moves left after each, the logarithm of the policy's chance of it, and its kind."""
        seen = policy_input(tensor[None], profiles(tensor[None], self._views), self._views)[0].to(self._network.device)
        if self._every is not None:
            after, kinds = census_of_moves(tensor, self._views)
            logs = self._network.log_chances(seen).reshape(-1).cpu().numpy()
            return self._every, self._guessed(after)[kinds], logs, kinds
        throws = torch.from_numpy(self._dice.random((self._planning.samples, 3), np.float32)).to(seen.device)
        moves = np.unique(self._network.sample(seen, throws).cpu().numpy() + 1, axis=0)
        children = tensor ^ outer_bits(moves, self._views.sizes)
        after = census(profiles(children, self._views), self._views)
        return moves, self._guessed(after), np.zeros(len(moves), np.float32), np.arange(len(moves))

    def _guessed(self, after: Counts) -> NDArray[np.float32]:
        """The network's guess; zero where the census says that nothing is left."""
        worths = self._network.moves_left(torch.from_numpy(after).to(self._network.device)).cpu().numpy().copy()
        worths[after[:, 0] == 1.0] = 0.0
        return worths
