"""What can be read off weights and gradients: norms, ranks, dead units; all by layer, as metrics.

A layer is named by the path of its weight within the network, such as `actor.layers.0`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from palaestra.policies.agent import Agent

DEAD_SHARE = 0.01  # a unit is dead when its incoming weights are below this share of the layer's mean


@torch.no_grad()
def weight_statistics(agent: Agent) -> dict[str, float]:
    """`weights/<layer>/norm`, `…/effective_rank` and `…/dead_units` of every layer with a matrix of weights."""
    metrics: dict[str, float] = {}
    for name, weight in layer_weights(agent):
        matrix = weight.flatten(1)  # [units, incoming]; a kernel is one row per channel
        metrics[f"weights/{name}/norm"] = float(matrix.norm())
        metrics[f"weights/{name}/effective_rank"] = effective_rank(matrix)
        metrics[f"weights/{name}/dead_units"] = dead_units(matrix)
    return metrics


@torch.no_grad()
def gradient_statistics(agent: Agent) -> dict[str, float]:
    """`gradients/<layer>/norm` of the last minibatch's step, regularisers included and after clipping."""
    return {
        f"gradients/{name}/norm": float(weight.grad.norm())
        for name, weight in layer_weights(agent)
        if weight.grad is not None
    }


def layer_weights(agent: Agent) -> Iterator[tuple[str, Tensor]]:
    for path, parameter in agent.network.named_parameters():
        if parameter.ndim >= 2:
            yield path.removesuffix(".weight"), parameter


def effective_rank(matrix: Tensor) -> float:
    """exp of the entropy of the singular values' shares (Roy and Vetterli): 1 for one direction, n for n equal ones."""
    sizes = torch.linalg.svdvals(matrix.double())
    total = sizes.sum()
    if total == 0:
        return 0.0
    shares = sizes / total
    return float(torch.exp(-torch.special.xlogy(shares, shares).sum()))


def dead_units(matrix: Tensor) -> float:
    """Share of units that hear next to nothing: a row whose norm is below 1 % of the layer's mean row norm."""
    norms = matrix.norm(dim=1)
    return float((norms <= DEAD_SHARE * norms.mean()).double().mean())
