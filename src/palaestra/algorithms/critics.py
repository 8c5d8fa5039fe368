"""Critics of SAC and TD3 with their targets and optimiser: one block of memory, however many there are."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import torch

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.algorithms.targets import TargetNetwork
from palaestra.policies.critics import build_critics

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from palaestra.algorithms.group import Group
    from palaestra.config.optimizer import OptimizerConfig
    from palaestra.config.policy import PolicyConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.base import Observation


@dataclass(frozen=True)
class CriticFigures:
    losses: list[float]  # of each critic
    values: list[float]  # mean over the batch, of each critic

    def metrics(self) -> dict[str, float]:
        """As CleanRL calls them; its qf_loss is the mean over two critics."""
        return {
            **{f"losses/qf{number}_loss": loss for number, loss in enumerate(self.losses, start=1)},
            **{f"losses/qf{number}_values": value for number, value in enumerate(self.values, start=1)},
            "losses/qf_loss": sum(self.losses) / len(self.losses),
        }


class Critics:
    def __init__(
        self, networks: nn.ModuleList, config: OptimizerConfig, shared: Mapping[str, NDArray[np.float32]] | None = None
    ) -> None:
        """`shared`: see `FlatOptimizer`; with an entry `target`."""
        self.networks = networks
        self.optimizer = FlatOptimizer(networks, config, shared=shared)
        self.target = TargetNetwork(networks, self.optimizer, None if shared is None else shared["target"])

    def values(self, observations: Observation, *actions: Tensor) -> Tensor:
        """[K, 1, N] of K critics; for discrete actions, which are not given, [K, 1, N, count]."""
        return torch.stack([network(observations, *actions) for network in self.networks])

    @torch.no_grad()
    def target_values(self, observations: Observation, *actions: Tensor) -> Tensor:
        """The smallest over the critics: [1, N], or [1, N, count]."""
        return torch.stack([network(observations, *actions) for network in self.target.network]).amin(dim=0)

    def step(self, values: Tensor, targets: Tensor, learning_rate: float, group: Group) -> CriticFigures:
        """One step towards the targets [1, N]; `values` [K, 1, N], with their gradients."""
        losses, gradients = squared_errors(values.detach(), targets)
        self.optimizer.learning_rate = learning_rate
        self.optimizer.backward([values], [gradients])
        group.average_(self.optimizer.grad)
        self.optimizer.step(inf)
        return CriticFigures(losses.tolist(), values.detach().mean(dim=(1, 2)).tolist())

    def compile(self, backend: str = "inductor") -> None:
        """torch.compile, in place as `policies.agent.compile_network`; a second call does nothing."""
        for network in self.networks:
            if network._compiled_call_impl is None:
                network.compile(backend=backend)

    def capture(self) -> dict[str, Any]:
        """On the CPU, copied."""
        return {
            "critics": self.optimizer.flat.cpu().clone(),
            "critic_target": self.target.capture(),
            "critic_optimizer": self.optimizer.capture(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.optimizer.flat.copy_(saved["critics"])
        self.target.restore(saved["critic_target"])
        self.optimizer.restore(saved["critic_optimizer"])


def new_critics(
    policy: PolicyConfig,
    interface: EnvInterface,
    count: int,
    optimizer: OptimizerConfig,
    device: torch.device,
    shared: Mapping[str, NDArray[np.float32]] | None = None,
) -> Critics:
    """Weights are drawn from torch's global generator; those in `shared` are taken as they are."""
    with torch.random.fork_rng(devices=[], enabled=shared is not None):  # then it is as if nothing was drawn
        networks = build_critics(policy, interface, count).to(device)
    return Critics(networks, optimizer, shared)


def squared_errors(values: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The mean squared error of each critic [K], and the derivative of their sum by the values [K, 1, N]."""
    errors = values - targets
    return errors.square().mean(dim=(1, 2)), errors * (2 / targets.numel())


def action_gradient(values: Tensor, actions: Tensor) -> Tensor:
    """Derivative of the sum of `values` by the actions that they were computed from; critics get no gradient."""
    (gradient,) = torch.autograd.grad(values.sum(), actions)
    return gradient
