"""The agent as a state that learns and plays; it yields a report for each round and never calls up.

A round: a few updates on demonstrations and on positions of its own episodes, then one episode in every process of the
group. Everything that decides how it goes on is in `capture`, so that a run that goes on is the same run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from palaestra.apps.matmul.agent.census import views_of
from palaestra.apps.matmul.agent.config import GameSettings, refuse_large
from palaestra.apps.matmul.agent.demonstrations import Lessons, draw_lessons, draw_plateau, joined, plateau_lessons
from palaestra.apps.matmul.agent.episode import Played, encode_played, play_episode, scheme_lessons
from palaestra.apps.matmul.agent.mcts import Planner, Planning
from palaestra.apps.matmul.agent.network import AgentNetwork, both_inputs
from palaestra.checkpoints.weights import trainer_state_from_bytes, trainer_state_to_bytes
from palaestra.core.errors import DamagedFile, UsageError
from palaestra.policies.device import choose_device
from palaestra.training.sharing import equalize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.algorithms.group import Group
    from palaestra.apps.matmul.agent.census import Views
    from palaestra.apps.matmul.agent.config import AgentConfig
    from palaestra.apps.matmul.schemes.bit_masks import Masks
    from palaestra.apps.matmul.schemes.factorization import Format

SEEDS = 2**63
POLICY_WEIGHT = 0.3  # its loss is an order of magnitude larger than the value's
PLATEAU = 64  # schemes of the schoolbook's rank


@dataclass(frozen=True)
class RoundReport:
    round: int
    updates: int  # so far
    moves: int  # made so far, in all processes
    value_loss: float
    policy_loss: float
    episodes: tuple[Played, ...]  # of this round, in the order of ranks


class AgentLearner:
    def __init__(self, format_: Format, config: AgentConfig, seed: int, group: Group) -> None:
        refuse_large(format_)
        self.format, self.config, self.group = format_, config, group
        self.views = views_of(format_)
        self.most_rank = format_.schoolbook_rank  # that the value knows of
        self.settings = GameSettings(
            format=str(format_), max_rank=self.most_rank - 1, change_of_basis=config.change_of_basis
        )
        torch.manual_seed(seed)
        self.network = AgentNetwork(self.views, self.most_rank, config.width)
        self.network.to(choose_device(config.device, group.local_rank))
        equalize(self.network, group)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self.dice = np.random.default_rng([seed, group.rank])
        self.memory = AgentMemory(self.views, config.memory)
        self._plateau = draw_plateau(format_, PLATEAU, np.random.default_rng(seed))
        self.schemes: list[Masks] = []  # shown to it; empty: what it finds it finds by itself
        self.rounds = self.updates = self.moves = 0
        self._losses = (0.0, 0.0)

    def learn(self) -> Iterator[RoundReport]:
        """Without end; whoever listens decides when it is enough."""
        while True:
            due = self.config.updates if self.rounds else self.config.warmup
            for _ in range(due):
                self._update()
            played, lessons = play_episode(self._planner(), self.settings, int(self.dice.integers(SEEDS)))
            self.memory.add(lessons)
            everybody = self._shared(played)
            self.rounds += 1
            self.moves += sum(one.moves for one in everybody)
            yield RoundReport(self.rounds, self.updates, self.moves, *self._losses, tuple(everybody))

    def capture(self) -> dict[str, Any]:
        """Of all processes, for the leader; every process must call it."""
        own = trainer_state_to_bytes(
            {"dice": json.dumps(self.dice.bit_generator.state), "memory": self.memory.capture()}
        )
        return {
            "optimizer": self.optimizer.state_dict(),
            "counters": [self.rounds, self.updates, self.moves],
            "losses": list(self._losses),
            "schemes": json.dumps(self.schemes),
            "plateau": torch.from_numpy(self._plateau.copy()),
            "ranks": self.group.gather_bytes(own),
        }

    def restore(self, weights: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        try:
            ranks = list(state["ranks"])
            if len(ranks) != self.group.world_size:
                raise UsageError(
                    f"This run was begun by {len(ranks)} processes, not {self.group.world_size}.",
                    "Start as many again.",
                )
            self.network.load_state_dict(weights)
            self.optimizer.load_state_dict(state["optimizer"])
            self.rounds, self.updates, self.moves = state["counters"]
            self._losses = (float(state["losses"][0]), float(state["losses"][1]))
            self.schemes = json.loads(state["schemes"])
            self._plateau = state["plateau"].numpy().copy()
            own = trainer_state_from_bytes(ranks[self.group.rank])
            self.dice.bit_generator.state = json.loads(own["dice"])
            self.memory.restore(own["memory"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DamagedFile(f"The agent's state cannot be read: {error!r}.", "Begin again with run=NAME.") from error

    def _planner(self) -> Planner:
        config = self.config
        planning = Planning(
            simulations=config.simulations,
            width=config.children,
            noise=float(self.dice.uniform(config.least_noise, max(config.least_noise, config.most_noise))),
            most_listed=config.most_listed,
            samples=config.samples,
        )
        return Planner(self.network, self.views, planning, self.dice)

    def _update(self) -> None:
        lessons = self._lessons()
        value_input, policy_input = (part.to(self.network.device) for part in both_inputs(lessons.tensors, self.views))
        remaining = torch.from_numpy(lessons.remaining.clip(0, self.most_rank)).to(self.network.device)
        good = torch.from_numpy(lessons.are_good)
        moves = torch.from_numpy(lessons.moves - 1)[good].to(self.network.device)
        value_loss = self.network.value_loss(value_input, remaining)
        policy_loss = self.network.policy_loss(policy_input[good.to(policy_input.device)], moves)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(value_loss + POLICY_WEIGHT * policy_loss)
        for parameter in self.network.parameters():
            if parameter.grad is not None:
                self.group.average_(parameter.grad)
        self.optimizer.step()
        self.updates += 1
        self._losses = (value_loss.item(), policy_loss.item())

    def _lessons(self) -> Lessons:
        """Demonstrations, some positions of its own, and parts of the schemes that it was shown."""
        config = self.config
        parts = [self.memory.draw(int(config.batch * config.own_share), self.dice)]
        if self.schemes:
            count = int(config.batch * config.scheme_share)
            parts.append(scheme_lessons(self.schemes, self.format, count, self.dice))
        if config.plateau_share:
            count = int(config.batch * config.plateau_share)
            parts.append(plateau_lessons(self._plateau, self.views.sizes, count, self.dice))
        rest = config.batch - sum(map(len, parts))
        return joined([*parts, draw_lessons(self.format, max(rest, 1), self.most_rank - 1, self.dice)])

    def _shared(self, played: Played) -> list[Played]:
        gathered = self.group.gather_bytes(json.dumps(encode_played(played)).encode())
        told = self.group.tell(b"[" + b",".join(gathered) + b"]")
        return [Played(**one) for one in json.loads(told)]


class AgentMemory:
    def __init__(self, views: Views, size: int) -> None:
        self._size = size
        self.lessons = Lessons(
            np.zeros((0, *views.sizes), np.uint8), np.zeros((0, 3), np.int64), np.zeros(0, np.int64), np.zeros(0, bool)
        )

    def add(self, lessons: Lessons) -> None:
        self.lessons = joined([self.lessons, lessons]).chosen(slice(-self._size, None))

    def draw(self, count: int, dice: np.random.Generator) -> Lessons:
        """With repetition; fewer where there are not that many."""
        count = min(count, len(self.lessons))
        return self.lessons.chosen(dice.integers(0, max(len(self.lessons), 1), size=count))

    def capture(self) -> dict[str, Any]:
        kept = self.lessons
        return {
            "tensors": torch.from_numpy(kept.tensors.copy()),
            "moves": torch.from_numpy(kept.moves.copy()),
            "remaining": torch.from_numpy(kept.remaining.copy()),
            "are_good": torch.from_numpy(kept.are_good.copy()),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.lessons = Lessons(**{name: part.numpy().copy() for name, part in state.items()})
