"""DQN's targets and loss, on tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def td_targets(rewards: Tensor, discounts: Tensor, next_values: Tensor, choosing_values: Tensor | None) -> Tensor:
    """What taken actions should be worth; shape [1, N] from rewards and discounts [1, N].

    `next_values` [1, N, actions] are the target network's. The next action is the one of the largest value there, or in
    `choosing_values`, the trained network's (double Q-learning, van Hasselt et al., 2016).
    """
    if choosing_values is None:
        best = next_values.amax(dim=-1)
    else:
        best = next_values.gather(-1, choosing_values.argmax(dim=-1, keepdim=True)).squeeze(-1)
    return torch.addcmul(rewards, discounts, best)


def td_loss(td_errors: Tensor, weights: Tensor | None, kind: str) -> tuple[Tensor, Tensor]:
    """The mean loss over a batch, and its derivative with respect to the values of the actions taken, shape [1, N].

    `td_errors` [1, N] are these values minus their targets. `weights` [1, N]: importance weights. `kind`: mse, or
    huber, which is half the square up to 1 and linear beyond.
    """
    if kind == "mse":
        losses, slopes = td_errors.square(), 2 * td_errors
    else:
        slopes = td_errors.clamp(-1, 1)
        losses = slopes * (td_errors - 0.5 * slopes)
    if weights is not None:
        losses, slopes = losses * weights, slopes * weights
    return losses.mean(), slopes / td_errors.numel()
