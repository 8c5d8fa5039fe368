"""PPO's loss with its gradient written out.

Autograd would record some thirty small operations for it; at minibatches of a hundred samples that costs more than the
network. The derivative with respect to log-probability, entropy and value is short, so it is given directly.
`tests/training/test_losses.py` holds it equal to autograd on every branch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function


class LossTerms(NamedTuple):
    """What the statistics are made of; none of these carries a gradient."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    log_ratio: Tensor  # [1, M]
    ratio: Tensor  # [1, M]
    clipped: Tensor  # [1, M] bool: the policy's clip was binding


class LossWeights(NamedTuple):
    clip: float
    clip_value: bool
    value: float
    entropy: float


class _PpoLoss(Function):
    @staticmethod
    def forward(
        ctx: Any,
        log_prob: Tensor,
        entropy: Tensor,
        value: Tensor,
        old: tuple[Tensor, Tensor, Tensor, Tensor],
        weights: LossWeights,
    ) -> Any:
        old_log_prob, old_value, advantage, returns = old
        count = log_prob.numel()
        log_ratio = log_prob - old_log_prob
        ratio = log_ratio.exp()
        free = -advantage * ratio
        bound = -advantage * ratio.clamp(1 - weights.clip, 1 + weights.clip)
        clipped = bound > free
        policy_loss = torch.maximum(free, bound).mean()
        # Where the clip binds the loss does not depend on the ratio; elsewhere d ratio / d log_prob = ratio.
        grad_log_prob = free.masked_fill(clipped, 0.0).mul_(1.0 / count)

        error = value - returns
        if weights.clip_value:
            shift = value - old_value
            bounded = old_value + shift.clamp(-weights.clip, weights.clip) - returns
            is_bounded = (shift.abs() > weights.clip) & (bounded.square() > error.square())
            value_loss = 0.5 * torch.where(is_bounded, bounded, error).square().mean()
            grad_value = error.masked_fill(is_bounded, 0.0)
        else:
            value_loss = 0.5 * error.square().mean()
            grad_value = error
        mean_entropy = entropy.mean()
        loss = policy_loss + weights.value * value_loss - weights.entropy * mean_entropy
        ctx.save_for_backward(grad_log_prob, grad_value)
        ctx.entropy_slope = -weights.entropy / count
        ctx.value_slope = weights.value / count
        terms = LossTerms(policy_loss, value_loss, mean_entropy, log_ratio, ratio, clipped)
        ctx.mark_non_differentiable(*terms)
        return loss, *terms

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> Any:
        grad_log_prob, grad_value = ctx.saved_tensors
        grad_entropy = (grad * ctx.entropy_slope).expand_as(grad_log_prob)
        return grad * grad_log_prob, grad_entropy, grad_value * (grad * ctx.value_slope), None, None


def ppo_loss(
    log_prob: Tensor,
    entropy: Tensor,
    value: Tensor,
    old: tuple[Tensor, Tensor, Tensor, Tensor],
    weights: LossWeights,
) -> tuple[Tensor, LossTerms]:
    """The scalar to go down, and its parts. `old` is (log_prob, value, advantage, returns); all [1, M]."""
    loss, *terms = _PpoLoss.apply(log_prob, entropy, value, old, weights)  # type: ignore[no-untyped-call]
    return loss, LossTerms(*terms)
