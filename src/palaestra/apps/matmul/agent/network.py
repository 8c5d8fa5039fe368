"""The policy-value network of the agent.

The value predicts the number of moves left from the census, which does not depend on the basis. The policy is
autoregressive: it predicts u, then v given u, then w given both.
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
    def __init__(self, views: Views, max_rank: int, width: int) -> None:
        super().__init__()
        self.views = views
        classes = [(1 << size) - 1 for size in views.sizes]
        features = views.profile_size + int(np.prod(views.sizes))
        self.value = nn.Sequential(
            nn.Linear(views.census_size, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, max_rank + 1),  # logits of the number of moves left
        )
        self.trunk = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(width, count) for count in classes)
        # Checkpoints have the parameter names `after` and `words`.
        self.after = nn.ModuleList(nn.Linear(width, width) for _ in range(2))  # conditioning on u, on v
        self.words = nn.ModuleList(nn.Embedding(count, width) for count in classes[:2])
        self._counts: Tensor
        self.register_buffer("_counts", torch.arange(max_rank + 1, dtype=torch.float32), persistent=False)

    @property
    def device(self) -> torch.device:
        return self._counts.device

    def moves_left(self, features: Tensor) -> Tensor:
        """Expected moves left [tensors] for censuses [tensors, census_size]."""
        return functional.softmax(self.value(features), dim=-1) @ self._counts

    def log_priors(self, features: Tensor) -> Tensor:
        """Log probabilities [u, v, w] of every move for one tensor."""
        hidden = self.trunk(features)  # [width]
        first = functional.log_softmax(self.heads[0](hidden), dim=-1)  # [u]
        after_first = self._condition(0, hidden, self._all_embeddings(0))  # [u, width]
        second = functional.log_softmax(self.heads[1](after_first), dim=-1)  # [u, v]
        after_second = self._condition(1, after_first[:, None], self._all_embeddings(1)[None])  # [u, v, width]
        third = functional.log_softmax(self.heads[2](after_second), dim=-1)  # [u, v, w]
        return first[:, None, None] + second[:, :, None] + third

    def value_loss(self, features: Tensor, remaining: Tensor) -> Tensor:
        return functional.cross_entropy(self.value(features), remaining)

    def policy_loss(self, features: Tensor, moves: Tensor) -> Tensor:
        """Mean negative log probability of the moves [tensors, 3] (from 0)."""
        hidden = self.trunk(features)
        loss = functional.cross_entropy(self.heads[0](hidden), moves[:, 0])
        for step in range(2):
            hidden = self._condition(step, hidden, self.words[step](moves[:, step]))
            loss = loss + functional.cross_entropy(self.heads[step + 1](hidden), moves[:, step + 1])
        return loss

    def sample(self, features: Tensor, uniform: Tensor) -> Tensor:
        """Samples moves [samples, 3] (from 0) for one tensor; `uniform` [samples, 3] are random numbers in [0, 1)."""
        hidden = self.trunk(features).expand(len(uniform), -1)
        samples: list[Tensor] = []
        for step in range(3):
            probabilities = functional.softmax(self.heads[step](hidden), dim=-1).cumsum(dim=-1)
            choice = torch.searchsorted(probabilities, uniform[:, step : step + 1] * probabilities[:, -1:]).squeeze(1)
            samples.append(choice.clamp(max=probabilities.shape[1] - 1))
            if step < 2:
                hidden = self._condition(step, hidden, self.words[step](samples[-1]))
        return torch.stack(samples, dim=1)

    def _all_embeddings(self, step: int) -> Tensor:
        """All embeddings of a factor, [masks, width]."""
        table = self.words[step]
        assert isinstance(table, nn.Embedding)
        return table.weight

    def _condition(self, step: int, hidden: Tensor, word: Tensor) -> Tensor:
        return functional.relu(self.after[step](hidden) + word)


def policy_input(tensors: Bits, axis_profiles: list[NDArray[np.uint8]], views: Views) -> Tensor:
    """Input of the policy: profiles and entries, [tensors, features]."""
    scaled = [profile / np.float32(bins - 1) for profile, bins in zip(axis_profiles, views.bins, strict=True)]
    entries = tensors.reshape(len(tensors), -1).astype(np.float32)
    return torch.from_numpy(np.concatenate([*scaled, entries], axis=1).astype(np.float32))


def both_inputs(tensors: Bits, views: Views) -> tuple[Tensor, Tensor]:
    """Inputs of the value and of the policy."""
    features = profiles(tensors, views)
    return torch.from_numpy(census(features, views)), policy_input(tensors, features, views)
