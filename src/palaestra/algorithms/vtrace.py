"""V-trace: advantages for a policy that has moved since it acted (Espeholt et al., IMPALA), in PPO's terms.

With d_t = r_t + gamma * V(x_t+1) - V(x_t), the present policy's ratio q_t, rho_t = min(rho_clip, q_t) and
c_t = lambda * min(c_clip, q_t), the value targets are

    v_t - V(x_t) = rho_t * d_t + gamma * c_t * (v_t+1 - V(x_t+1))

and the advantage of the action taken leaves out its own ratio, because PPO's clipped ratio stands in its place:

    A_t = d_t + gamma * lambda * (v_t+1 - V(x_t+1))

Both sums stop where an episode ends. As long as the policy has not moved (all q_t = 1) and rho_clip and c_clip are at
least 1, A_t is the GAE of the same lambda, and v_t is V(x_t) + A_t: the first epoch of an update is plain PPO. The
critic's judgements are those made while acting, in every epoch; only the ratios are taken anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.algorithms.rollout import Rollout
    from palaestra.config.ppo_options import VtraceConfig


class Corrected(NamedTuple):
    advantages: Tensor  # [T, B]
    returns: Tensor  # [T, B] value targets


def vtrace(rollout: Rollout, log_probs: Tensor, gamma: float, gae_lambda: float, config: VtraceConfig) -> Corrected:
    """`log_probs` [T, B] are the present policy's, of the actions that were taken."""
    ratios = (log_probs - rollout.log_probs).exp()
    surprises = rollout.rewards + gamma * rollout.next_values - rollout.values
    goes_on = (~rollout.ended).to(surprises.dtype) * (gamma * gae_lambda)
    weighted = ratios.clamp(max=config.rho_clip) * surprises
    carry = ratios.clamp(max=config.c_clip) * goes_on
    later = torch.zeros_like(surprises)  # v_t+1 - V(x_t+1)
    gap = torch.zeros_like(surprises[0])  # v_t - V(x_t) of the step after
    for step in reversed(range(surprises.shape[0])):
        later[step] = gap
        gap = torch.addcmul(weighted[step], carry[step], gap)
    gaps = torch.addcmul(weighted, carry, later)
    return Corrected(torch.addcmul(surprises, goes_on, later), rollout.values + gaps)
