"""Generalised advantage estimation, and V-trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.algorithms.rollout import Rollout
    from palaestra.config.ppo_options import VtraceConfig


def estimate_advantages(rollout: Rollout, gamma: float, gae_lambda: float) -> Tensor:
    """GAE, shape [T, B]. Episode ends stop the sum; truncation still bootstraps (see Rollout.next_values)."""
    deltas = rollout.rewards + gamma * rollout.next_values - rollout.values
    discounts = (~rollout.ended).to(deltas.dtype) * (gamma * gae_lambda)
    return sum_backwards(deltas, discounts)


def sum_backwards(deltas: Tensor, discounts: Tensor) -> Tensor:
    """out[t] = deltas[t] + discounts[t] * out[t + 1], in NumPy: on rows this short a call costs a fifth of torch's."""
    steps = deltas.cpu().numpy()
    weights = discounts.cpu().numpy()
    out = np.empty_like(steps)
    running = np.zeros_like(steps[0])
    for step in range(len(steps) - 1, -1, -1):
        np.multiply(weights[step], running, out=running)
        running += steps[step]
        out[step] = running
    return torch.from_numpy(out).to(deltas.device)


class VtraceTargets(NamedTuple):
    advantages: Tensor  # [T, B]
    returns: Tensor  # [T, B] value targets


def vtrace(rollout: Rollout, log_probs: Tensor, gamma: float, gae_lambda: float, config: VtraceConfig) -> VtraceTargets:
    """Advantages for a policy that has changed since it acted (Espeholt et al., IMPALA), in PPO's terms.

    `log_probs` [T, B] are the present policy's, of the actions that were taken. With
    d_t = r_t + gamma * V(x_t+1) - V(x_t), the present policy's ratio q_t, rho_t = min(rho_clip, q_t) and
    c_t = lambda * min(c_clip, q_t), the value targets are

        v_t - V(x_t) = rho_t * d_t + gamma * c_t * (v_t+1 - V(x_t+1))

    and the advantage of the action taken leaves out its own ratio, because PPO's clipped ratio stands in its place:

        A_t = d_t + gamma * lambda * (v_t+1 - V(x_t+1))

    Both sums stop where an episode ends. As long as the policy has not changed (all q_t = 1) and rho_clip and c_clip
    are at least 1, A_t is the GAE of the same lambda and v_t is V(x_t) + A_t: the first epoch of an update is plain
    PPO. Values are those predicted while acting, in every epoch; only the ratios are recomputed.
    """
    ratios = (log_probs - rollout.log_probs).exp()
    deltas = rollout.rewards + gamma * rollout.next_values - rollout.values
    discounts = (~rollout.ended).to(deltas.dtype) * (gamma * gae_lambda)
    weighted = ratios.clamp(max=config.rho_clip) * deltas
    clipped_discounts = ratios.clamp(max=config.c_clip) * discounts
    next_corrections = torch.zeros_like(deltas)  # v_t+1 - V(x_t+1)
    correction = torch.zeros_like(deltas[0])  # v_t - V(x_t) of the step after
    for step in reversed(range(deltas.shape[0])):
        next_corrections[step] = correction
        correction = torch.addcmul(weighted[step], clipped_discounts[step], correction)
    corrections = torch.addcmul(weighted, clipped_discounts, next_corrections)
    return VtraceTargets(torch.addcmul(deltas, discounts, next_corrections), rollout.values + corrections)
