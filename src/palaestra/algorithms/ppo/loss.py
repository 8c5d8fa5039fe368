"""PPO's loss, with its gradients written out.

Autograd would record some thirty small operations for it; at minibatches of a hundred samples that costs more than the
network. The derivative with respect to log-probability, entropy and value is short, so autograd starts from there.
`tests/algorithms/ppo/test_loss.py` holds the gradients equal to autograd's on every branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.algorithms.ppo.minibatches import Minibatch


class LossWeights(NamedTuple):
    clip: float
    clip_value: bool
    value: float
    entropy: float


class LossGradients(NamedTuple):
    """d loss / d each input, [L, M]."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor


class LossTerms(NamedTuple):
    """Sample by sample, for the statistics: means are taken once per update, not once per minibatch."""

    objective: Tensor  # [L, M]; the policy loss is minus its mean
    squared_error: Tensor  # [L, M]; the value loss is half its mean
    entropy: Tensor  # [L, M]
    log_ratio: Tensor  # [L, M]
    ratio: Tensor  # [L, M]
    clipped: Tensor  # [L, M] bool: the policy's clip was binding


@torch.no_grad()
def ppo_loss(
    log_prob: Tensor, entropy: Tensor, value: Tensor, old: Minibatch, weights: LossWeights
) -> tuple[LossGradients, LossTerms]:
    """policy_loss + weights.value * value_loss - weights.entropy * entropy, as gradients and terms; inputs [L, M].

    Where the minibatch has weights, each term is the mean of weight times sample.
    """
    count = log_prob.numel()
    log_ratio = log_prob - old.log_probs
    ratio = log_ratio.exp()
    free = old.advantages * ratio  # to be made large
    bound = old.advantages * ratio.clamp(1 - weights.clip, 1 + weights.clip)
    clipped = bound < free
    # Where the clip binds, the loss does not depend on the ratio; elsewhere d ratio / d log_prob = ratio.
    log_prob_grad = free.masked_fill(clipped, 0.0).mul_(-1.0 / count)
    squared_error, value_grad = _value_loss(value, old, weights)
    gradients = LossGradients(
        log_prob=log_prob_grad,
        entropy=torch.full_like(entropy, -weights.entropy / count),
        value=value_grad.mul_(weights.value / count),
    )
    objective = torch.minimum(free, bound)
    if old.weights is not None:
        gradients = LossGradients(*(gradient.mul_(old.weights) for gradient in gradients))
        objective, squared_error, entropy = (part * old.weights for part in (objective, squared_error, entropy))
    return gradients, LossTerms(objective, squared_error, entropy.detach(), log_ratio, ratio, clipped)


def _value_loss(value: Tensor, old: Minibatch, weights: LossWeights) -> tuple[Tensor, Tensor]:
    """The squared error of each sample, and half its gradient."""
    error = value - old.returns
    if not weights.clip_value:
        return error.square(), error
    shift = value - old.values
    bounded = shift.clamp(-weights.clip, weights.clip) + (old.values - old.returns)
    is_bounded = (shift.abs() > weights.clip) & (bounded.square() > error.square())
    squared_error = torch.where(is_bounded, bounded, error).square()
    return squared_error, error.masked_fill_(is_bounded, 0.0)
