"""All parameters of a policy in one flat block, so that clipping and stepping are one operation each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from palaestra.contracts.errors import NonFinite

if TYPE_CHECKING:
    from collections.abc import Sequence

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-5


class FlatOptimizer:
    """Adam over one tensor. The policy's own parameters become views of it, so that its state_dict stays as it was.

    The kernel is the one that `torch.optim.Adam(fused=True)` ends in. It is called directly because for a network of
    ten thousand weights the bookkeeping around it takes fifteen times as long as the kernel itself.
    """

    def __init__(self, policy: nn.Module) -> None:
        parameters = list(policy.parameters())
        self.flat = torch.cat([parameter.detach().ravel() for parameter in parameters])
        self.grad = torch.zeros_like(self.flat)
        self.exp_avg = torch.zeros_like(self.flat)
        self.exp_avg_sq = torch.zeros_like(self.flat)
        self.step_count = torch.zeros((), dtype=torch.float32, device=self.flat.device)
        self.learning_rate = 0.0
        places = zip(parameters, _views(self.flat, parameters), _views(self.grad, parameters), strict=True)
        for parameter, values, gradient in places:
            parameter.data = values
            parameter.grad = gradient

    def backward(self, roots: Sequence[Tensor], slopes: Sequence[Tensor]) -> None:
        """Gradient of a loss whose derivative with respect to each root is the slope given for it."""
        self.grad.zero_()
        torch.autograd.backward(roots, slopes)

    def step(self, max_grad_norm: float) -> float:
        """Clip and step; the gradient's norm before clipping. Nothing moves when it is not finite."""
        norm = float(self.grad.norm())
        if not math.isfinite(norm):
            raise NonFinite(f"The gradient's norm is {norm}.")
        if norm > max_grad_norm:
            self.grad.mul_(max_grad_norm / (norm + 1e-6))
        torch._fused_adam_(
            [self.flat],
            [self.grad],
            [self.exp_avg],
            [self.exp_avg_sq],
            [],
            [self.step_count.add_(1)],
            lr=self.learning_rate,
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=0.0,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )
        return norm

    def capture(self) -> dict[str, Tensor]:
        return {
            "exp_avg": self.exp_avg.clone(),
            "exp_avg_sq": self.exp_avg_sq.clone(),
            "step_count": self.step_count.clone(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.exp_avg.copy_(state["exp_avg"])
        self.exp_avg_sq.copy_(state["exp_avg_sq"])
        self.step_count.copy_(state["step_count"])


def _views(flat: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    pieces = torch.split(flat, [parameter.numel() for parameter in parameters])
    return [piece.view_as(parameter) for piece, parameter in zip(pieces, parameters, strict=True)]
