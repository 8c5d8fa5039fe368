"""Training of the agent: a generator that yields a report for each round.

A round is a number of updates on demonstrations and on the replay buffer, then one episode in every process of the
group. `capture` returns the complete state, so that a resumed run continues bit for bit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from palaestra.apps.matmul.agent.census import views_of
from palaestra.apps.matmul.agent.config import GameSettings, check_fits_agent
from palaestra.apps.matmul.agent.demonstrations import (
    TrainingExamples,
    concatenate,
    naive_rank_examples,
    sample_naive_rank_schemes,
    sample_synthetic,
    scheme_examples,
)
from palaestra.apps.matmul.agent.episode import Episode, encode_episode, play_episode
from palaestra.apps.matmul.agent.mcts import Planner, PlannerSettings
from palaestra.apps.matmul.agent.network import AgentNetwork, both_inputs
from palaestra.checkpoints.weights import trainer_state_from_bytes, trainer_state_to_bytes
from palaestra.core.errors import DamagedFile, UsageError
from palaestra.policies.device import choose_device
from palaestra.training.distributed.reports import equalize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.algorithms.group import Group
    from palaestra.apps.matmul.agent.census import Views
    from palaestra.apps.matmul.agent.config import AgentConfig
    from palaestra.apps.matmul.schemes.bit_masks import Masks
    from palaestra.apps.matmul.schemes.factorization import Format

SEEDS = 2**63
# Checkpoints of version 0.1 have the keys on the left.
OLD_KEYS = {
    "dice": "rng",
    "memory": "replay_buffer",
    "plateau": "naive_rank_schemes",
    "are_good": "has_policy_target",
}
POLICY_WEIGHT = 0.3  # the policy loss is an order of magnitude larger than the value loss
NAIVE_RANK_SCHEMES = 64  # number of schemes


@dataclass(frozen=True)
class RoundReport:
    round: int
    updates: int  # in total
    moves: int  # in total, of all processes
    value_loss: float
    policy_loss: float
    episodes: tuple[Episode, ...]  # of this round, ordered by process


class AgentLearner:
    def __init__(self, format_: Format, config: AgentConfig, seed: int, group: Group) -> None:
        check_fits_agent(format_)
        self.format, self.config, self.group = format_, config, group
        self.views = views_of(format_)
        self.max_rank = format_.naive_rank  # largest number of moves left that the value predicts
        self.settings = GameSettings(
            format=str(format_), max_rank=self.max_rank - 1, change_of_basis=config.change_of_basis
        )
        torch.manual_seed(seed)
        self.network = AgentNetwork(self.views, self.max_rank, config.width)
        self.network.to(choose_device(config.device, group.local_rank))
        equalize(self.network, group)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self.rng = np.random.default_rng([seed, group.rank])
        self.replay_buffer = ReplayBuffer(self.views, config.replay_size)
        self._naive_rank_schemes = sample_naive_rank_schemes(format_, NAIVE_RANK_SCHEMES, np.random.default_rng(seed))
        self.schemes: list[Masks] = []  # demonstrated schemes; empty without
        self.rounds = self.updates = self.moves = 0
        self._losses = (0.0, 0.0)

    def learn(self) -> Iterator[RoundReport]:
        """Runs rounds endlessly; the consumer decides when to stop."""
        while True:
            update_count = self.config.updates if self.rounds else self.config.warmup
            for _ in range(update_count):
                self._update()
            episode, examples = play_episode(self._planner(), self.settings, int(self.rng.integers(SEEDS)))
            self.replay_buffer.add(examples)
            episodes = self._gather_episodes(episode)
            self.rounds += 1
            self.moves += sum(one.moves for one in episodes)
            yield RoundReport(self.rounds, self.updates, self.moves, *self._losses, tuple(episodes))

    def capture(self) -> dict[str, Any]:
        """The state of all processes, for the leader; every process must call it."""
        own = trainer_state_to_bytes(
            {"rng": json.dumps(self.rng.bit_generator.state), "replay_buffer": self.replay_buffer.capture()}
        )
        return {
            "optimizer": self.optimizer.state_dict(),
            "counters": [self.rounds, self.updates, self.moves],
            "losses": list(self._losses),
            "schemes": json.dumps(self.schemes),
            "naive_rank_schemes": torch.from_numpy(self._naive_rank_schemes.copy()),
            "ranks": self.group.gather_bytes(own),
        }

    def restore(self, weights: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        state = _with_new_keys(state)
        try:
            ranks = list(state["ranks"])
            if len(ranks) != self.group.world_size:
                raise UsageError(
                    f"The run was started with {len(ranks)} processes, not {self.group.world_size}.",
                    f"Start it with {len(ranks)} processes.",
                )
            self.network.load_state_dict(weights)
            self.optimizer.load_state_dict(state["optimizer"])
            self.rounds, self.updates, self.moves = state["counters"]
            self._losses = (float(state["losses"][0]), float(state["losses"][1]))
            self.schemes = json.loads(state["schemes"])
            self._naive_rank_schemes = state["naive_rank_schemes"].numpy().copy()
            own = _with_new_keys(trainer_state_from_bytes(ranks[self.group.rank]))
            self.rng.bit_generator.state = json.loads(own["rng"])
            self.replay_buffer.restore(own["replay_buffer"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DamagedFile(f"The saved agent is damaged: {error!r}.", "Start a new run=NAME.") from error

    def _planner(self) -> Planner:
        config = self.config
        settings = PlannerSettings(
            simulations=config.simulations,
            width=config.children,
            noise=float(self.rng.uniform(config.min_noise, max(config.min_noise, config.max_noise))),
            max_listed_moves=config.max_listed_moves,
            samples=config.samples,
        )
        return Planner(self.network, self.views, settings, self.rng)

    def _update(self) -> None:
        examples = self._examples()
        value_input, policy_input = (part.to(self.network.device) for part in both_inputs(examples.tensors, self.views))
        remaining = torch.from_numpy(examples.remaining.clip(0, self.max_rank)).to(self.network.device)
        has_target = torch.from_numpy(examples.has_policy_target)
        moves = torch.from_numpy(examples.moves - 1)[has_target].to(self.network.device)
        value_loss = self.network.value_loss(value_input, remaining)
        policy_loss = self.network.policy_loss(policy_input[has_target.to(policy_input.device)], moves)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(value_loss + POLICY_WEIGHT * policy_loss)
        for parameter in self.network.parameters():
            if parameter.grad is not None:
                self.group.average_(parameter.grad)
        self.optimizer.step()
        self.updates += 1
        self._losses = (value_loss.item(), policy_loss.item())

    def _examples(self) -> TrainingExamples:
        """A batch: replay buffer, shown schemes, schemes of naive rank, and synthetic demonstrations."""
        config = self.config
        parts = [self.replay_buffer.draw(int(config.batch * config.replay_share), self.rng)]
        if self.schemes:
            count = int(config.batch * config.scheme_share)
            parts.append(scheme_examples(self.schemes, self.format, count, self.rng))
        if config.naive_share:
            count = int(config.batch * config.naive_share)
            parts.append(naive_rank_examples(self._naive_rank_schemes, self.views.sizes, count, self.rng))
        rest = config.batch - sum(map(len, parts))
        return concatenate([*parts, sample_synthetic(self.format, max(rest, 1), self.max_rank - 1, self.rng)])

    def _gather_episodes(self, episode: Episode) -> list[Episode]:
        gathered = self.group.gather_bytes(json.dumps(encode_episode(episode)).encode())
        shared = self.group.broadcast_bytes(b"[" + b",".join(gathered) + b"]")
        return [Episode(**one) for one in json.loads(shared)]


def _with_new_keys(state: dict[str, Any]) -> dict[str, Any]:
    return {OLD_KEYS.get(key, key): value for key, value in state.items()}


class ReplayBuffer:
    def __init__(self, views: Views, size: int) -> None:
        self._size = size
        self.examples = TrainingExamples(
            np.zeros((0, *views.sizes), np.uint8), np.zeros((0, 3), np.int64), np.zeros(0, np.int64), np.zeros(0, bool)
        )

    def add(self, examples: TrainingExamples) -> None:
        self.examples = concatenate([self.examples, examples]).select(slice(-self._size, None))

    def draw(self, count: int, rng: np.random.Generator) -> TrainingExamples:
        """Samples with replacement; at most as many as are stored."""
        count = min(count, len(self.examples))
        return self.examples.select(rng.integers(0, max(len(self.examples), 1), size=count))

    def capture(self) -> dict[str, Any]:
        stored = self.examples
        return {
            "tensors": torch.from_numpy(stored.tensors.copy()),
            "moves": torch.from_numpy(stored.moves.copy()),
            "remaining": torch.from_numpy(stored.remaining.copy()),
            "has_policy_target": torch.from_numpy(stored.has_policy_target.copy()),
        }

    def restore(self, state: dict[str, Any]) -> None:
        parts = {name: part.numpy().copy() for name, part in _with_new_keys(state).items()}
        self.examples = TrainingExamples(**parts)
