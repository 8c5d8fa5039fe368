"""All parameters of a policy in one flat block, so that clipping and stepping are one operation each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from palaestra.contracts.errors import NonFinite

if TYPE_CHECKING:
    from palaestra.policies.base import Policy


class FlatOptimizer:
    """Adam over one tensor. The policy's own parameters become views of it, so that its state_dict stays as it was."""

    def __init__(self, policy: Policy, *, epsilon: float = 1e-5) -> None:
        parameters = list(policy.parameters())
        self.flat = nn.Parameter(torch.cat([parameter.detach().ravel() for parameter in parameters]))
        self.grad = torch.zeros_like(self.flat)
        self.flat.grad = self.grad
        with torch.no_grad():
            for parameter, values, gradient in zip(
                parameters, _views(self.flat.data, parameters), _views(self.grad, parameters), strict=True
            ):
                parameter.data = values
                parameter.grad = gradient
        self.adam = torch.optim.Adam([self.flat], eps=epsilon, fused=True)

    def set_learning_rate(self, value: float) -> None:
        self.adam.param_groups[0]["lr"] = value

    def step(self, loss: Tensor, max_grad_norm: float) -> float:
        """One step down `loss`; the gradient's norm before clipping. Nothing moves when it is not finite."""
        self.grad.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = float(self.grad.norm())
        if not math.isfinite(norm):
            raise NonFinite(_what_is_not_finite(loss))
        if norm > max_grad_norm:
            self.grad.mul_(max_grad_norm / (norm + 1e-6))
        self.adam.step()
        return norm

    def capture(self) -> dict[str, Any]:
        return self.adam.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        self.adam.load_state_dict(state)


def _views(flat: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    pieces = torch.split(flat, [parameter.numel() for parameter in parameters])
    return [piece.view_as(parameter) for piece, parameter in zip(pieces, parameters, strict=True)]


def _what_is_not_finite(loss: Tensor) -> str:
    value = float(loss.detach())
    return "The gradient is not finite." if math.isfinite(value) else f"The loss is {value}."
