"""The agent's network: how many moves are left (value), and which one to make (policy).

The value sees the census only, which is the same in every basis. The policy names u, then v when it knows u, then w
when it knows both: so it can speak of moves, where three separate guesses could only speak of their parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.apps.matmul.agent.census import Bits, Views, census, profiles

if TYPE_CHECKING:
    from numpy.typing import NDArray


class AgentNetwork(nn.Module):
    def __init__(self, views: Views, most_rank: int, width: int) -> None:
        super().__init__()
        self.views = views
        classes = [(1 << size) - 1 for size in views.sizes]
        seen = views.profile_size + int(np.prod(views.sizes))
        self.value = nn.Sequential(
            nn.Linear(views.census_size, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, most_rank + 1),  # a chance for each number of moves left
        )
        self.trunk = nn.Sequential(nn.Linear(seen, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(width, count) for count in classes)
        self.after = nn.ModuleList(nn.Linear(width, width) for _ in range(2))  # u is known, v is known
        self.words = nn.ModuleList(nn.Embedding(count, width) for count in classes[:2])
        self._counts: Tensor
        self.register_buffer("_counts", torch.arange(most_rank + 1, dtype=torch.float32), persistent=False)

    @property
    def device(self) -> torch.device:
        return self._counts.device

    def moves_left(self, seen: Tensor) -> Tensor:
        """Expected, [tensors], of censuses [tensors, census_size]."""
        return functional.softmax(self.value(seen), dim=-1) @ self._counts

    def log_priors(self, seen: Tensor) -> Tensor:
        """[u, v, w] for one tensor: the logarithm of the policy's chance of every move."""
        hidden = self.trunk(seen)  # [width]
        first = functional.log_softmax(self.heads[0](hidden), dim=-1)  # [u]
        after_first = self._condition(0, hidden, self._all_embeddings(0))  # [u, width]
        second = functional.log_softmax(self.heads[1](after_first), dim=-1)  # [u, v]
        after_second = self._condition(1, after_first[:, None], self._all_embeddings(1)[None])  # [u, v, width]
        third = functional.log_softmax(self.heads[2](after_second), dim=-1)  # [u, v, w]
        return first[:, None, None] + second[:, :, None] + third

    def value_loss(self, seen: Tensor, remaining: Tensor) -> Tensor:
        return functional.cross_entropy(self.value(seen), remaining)

    def policy_loss(self, seen: Tensor, moves: Tensor) -> Tensor:
        """Minus the logarithm of the chance of the moves [tensors, 3] (from 0), in the mean."""
        hidden = self.trunk(seen)
        loss = functional.cross_entropy(self.heads[0](hidden), moves[:, 0])
        for step in range(2):
            hidden = self._condition(step, hidden, self.words[step](moves[:, step]))
            loss = loss + functional.cross_entropy(self.heads[step + 1](hidden), moves[:, step + 1])
        return loss

    def sample(self, seen: Tensor, uniform: Tensor) -> Tensor:
        """Moves [samples, 3] (from 0) of one tensor; `uniform` [samples, 3] are the throws that decide."""
        hidden = self.trunk(seen).expand(len(uniform), -1)
        drawn: list[Tensor] = []
        for step in range(3):
            chances = functional.softmax(self.heads[step](hidden), dim=-1).cumsum(dim=-1)
            choice = torch.searchsorted(chances, uniform[:, step : step + 1] * chances[:, -1:]).squeeze(1)
            drawn.append(choice.clamp(max=chances.shape[1] - 1))
            if step < 2:
                hidden = self._condition(step, hidden, self.words[step](drawn[-1]))
        return torch.stack(drawn, dim=1)

    def _all_embeddings(self, step: int) -> Tensor:
        """[words, width]"""
        table = self.words[step]
        assert isinstance(table, nn.Embedding)
        return table.weight

    def _condition(self, step: int, hidden: Tensor, word: Tensor) -> Tensor:
        return functional.relu(self.after[step](hidden) + word)


def policy_input(tensors: Bits, seen: list[NDArray[np.uint8]], views: Views) -> Tensor:
    """[tensors, profiles and entries]"""
    scaled = [profile / np.float32(bins - 1) for profile, bins in zip(seen, views.bins, strict=True)]
    entries = tensors.reshape(len(tensors), -1).astype(np.float32)
    return torch.from_numpy(np.concatenate([*scaled, entries], axis=1).astype(np.float32))


def both_inputs(tensors: Bits, views: Views) -> tuple[Tensor, Tensor]:
    """For the value and for the policy."""
    seen = profiles(tensors, views)
    return torch.from_numpy(census(seen, views)), policy_input(tensors, seen, views)
