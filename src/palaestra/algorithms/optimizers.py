"""All parameters of a policy in one flat block, so that clipping and stepping are one operation each.

`ppo.optimizer.kind=adam` steps the whole block with Adam, `radam` with rectified Adam. `muon` steps hidden matrices
with torch's Muon and the rest with the same Adam; see `group_parameters` for which is which. Muon's steps are scaled to
the size of Adam's, so that `ppo.learning_rate` means the same for both. Weight decay is apart from the gradient, as in
AdamW.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Variable

from palaestra.config.optimizer import OptimizerConfig, RegularizeConfig
from palaestra.core.errors import NonFinite
from palaestra.policies.agent import Agent
from palaestra.policies.distributions import head_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor


class FlatOptimizer:
    """Steps one tensor. The policy's own parameters become views of it, so that its state_dict stays as it was.

    Adam's kernel is the one that `torch.optim.Adam(fused=True)` ends in. It is called directly because for a network
    of ten thousand weights the bookkeeping around it takes fifteen times as long as the kernel itself.
    """

    def __init__(
        self,
        policy: nn.Module,
        config: OptimizerConfig = OptimizerConfig(),  # noqa: B008  frozen
        regularize: RegularizeConfig = RegularizeConfig(),  # noqa: B008  frozen
        shared: Mapping[str, NDArray[np.float32]] | None = None,
    ) -> None:
        """`shared`: memory in which an engine trains these very weights with Adam already; see `adam_memory`"""
        all_adam = ParameterGroups(list(policy.parameters()), [])
        groups = group_parameters(policy) if config.kind == "muon" else all_adam
        parameters = [*groups.adam, *groups.muon]  # Muon's come last, so that Adam's are contiguous
        self.config = config
        self.flat = torch.cat([parameter.detach().ravel() for parameter in parameters])
        self.grad = torch.zeros_like(self.flat)
        if shared is not None:
            self.flat, self.grad = torch.from_numpy(shared["values"]), torch.from_numpy(shared["gradient"])
        self.learning_rate = 0.0
        self.regularizer = Regularizer(regularize, self.flat)
        self._parameters = parameters  # in the order of the block
        places = zip(parameters, _views(self.flat, parameters), _views(self.grad, parameters), strict=True)
        for parameter, values, gradient in places:
            parameter.data = values
            parameter.grad = gradient
        adam_count = sum(parameter.numel() for parameter in groups.adam)
        kind = FlatRAdam if config.kind == "radam" else FlatAdam
        self._adam = kind(self.flat[:adam_count], self.grad[:adam_count], config, shared)
        self._muon = MatrixMuon(groups.muon, config) if groups.muon else None

    def backward(self, roots: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Gradient of a loss whose derivative with respect to each root is the gradient given for it."""
        self.grad.zero_()
        # What torch.autograd.backward calls in the end; its checks take as long as the backward of a small layer.
        Variable._execution_engine.run_backward(
            tuple(roots),
            tuple(gradients),
            keep_graph=False,
            create_graph=False,
            inputs=(),
            allow_unreachable=True,
            accumulate_grad=True,
        )

    def step(self, max_grad_norm: float) -> float:
        """Clip and step; the gradient's norm before clipping. Nothing moves when it is not finite."""
        self.regularizer.add_gradients(self.grad, self.flat)
        norm = float(self.grad.norm())
        if not math.isfinite(norm):
            raise NonFinite(f"The gradient's norm is {norm}.")
        if norm > max_grad_norm:
            self.grad.mul_(max_grad_norm / (norm + 1e-6))
        self._adam.step(self.learning_rate)
        if self._muon is not None:
            self._muon.step(self.learning_rate)
        self.regularizer.bound(self.flat)
        return norm

    def lay_out(self, copy: nn.Module, policy: nn.Module, flat: Tensor) -> None:
        """Makes the parameters of a copy of the policy views of `flat`, in the order of this block."""
        names = {id(parameter): name for name, parameter in policy.named_parameters()}
        for parameter, values in zip(self._parameters, _views(flat, self._parameters), strict=True):
            copy.get_parameter(names[id(parameter)]).data = values

    def adam_memory(self) -> dict[str, Tensor]:
        """What a step reads and writes, for an engine that steps by itself: shared, not copied."""
        return {"values": self.flat, "gradient": self.grad, **self._adam.memory()}

    def capture(self) -> dict[str, Tensor]:
        """On the CPU, copied."""
        muon = self._muon.capture() if self._muon is not None else {}
        return {**self._adam.capture(), **muon, **self.regularizer.capture()}

    def restore(self, state: dict[str, Any]) -> None:
        self._adam.restore(state)
        if self._muon is not None:
            self._muon.restore(state)
        self.regularizer.restore(state)


class FlatAdam:
    def __init__(
        self,
        flat: Tensor,
        grad: Tensor,
        config: OptimizerConfig,
        shared: Mapping[str, NDArray[np.float32]] | None = None,
    ) -> None:
        self._flat = flat
        self._grad = grad
        self._config = config
        self._exp_avg = torch.zeros_like(flat)
        self._exp_avg_sq = torch.zeros_like(flat)
        self._step_count = torch.zeros((), dtype=torch.float32, device=flat.device)
        if shared is not None:
            self._exp_avg, self._exp_avg_sq, self._step_count = (
                torch.from_numpy(shared[name]) for name in ("mean", "spread", "step_count")
            )
        self._kernel = torch._fused_adamw_ if config.weight_decay else torch._fused_adam_

    def step(self, learning_rate: float) -> None:
        self._kernel(
            [self._flat],
            [self._grad],
            [self._exp_avg],
            [self._exp_avg_sq],
            [],
            [self._step_count.add_(1)],
            lr=learning_rate,
            beta1=self._config.beta1,
            beta2=self._config.beta2,
            weight_decay=self._config.weight_decay,
            eps=self._config.epsilon,
            amsgrad=False,
            maximize=False,
        )

    def memory(self) -> dict[str, Tensor]:
        return {"mean": self._exp_avg, "spread": self._exp_avg_sq, "step_count": self._step_count}

    def capture(self) -> dict[str, Tensor]:
        parts = {"exp_avg": self._exp_avg, "exp_avg_sq": self._exp_avg_sq, "step_count": self._step_count}
        return {name: part.cpu().clone() for name, part in parts.items()}

    def restore(self, state: dict[str, Any]) -> None:
        self._exp_avg.copy_(state["exp_avg"])
        self._exp_avg_sq.copy_(state["exp_avg_sq"])
        self._step_count.copy_(state["step_count"])


class FlatRAdam(FlatAdam):
    """Rectified Adam (Liu et al., 2020): Adam's step, scaled by how well the squared gradient is known by now."""

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        config = self._config
        count = float(self._step_count.add_(1))
        self._exp_avg.lerp_(self._grad, 1 - config.beta1)
        self._exp_avg_sq.mul_(config.beta2).addcmul_(self._grad, self._grad, value=1 - config.beta2)
        if config.weight_decay:
            self._flat.mul_(1 - learning_rate * config.weight_decay)
        size = learning_rate / (1 - config.beta1**count)
        rectification = radam_rectification(config.beta2, count)
        if rectification is None:
            self._flat.add_(self._exp_avg, alpha=-size)
            return
        correction = math.sqrt(1 - config.beta2**count)
        spread = self._exp_avg_sq.sqrt().add_(config.epsilon)
        self._flat.addcdiv_(self._exp_avg, spread, value=-size * rectification * correction)


LEAST_KNOWN = 5.0  # length of the average from which the squared gradient is used, as in torch


def radam_rectification(beta2: float, step: float) -> float | None:
    """The factor r_t of the paper; None while the variance of the squared gradient cannot be estimated."""
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / (1 - beta2**step)
    if length <= LEAST_KNOWN:
        return None
    return math.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))


class MatrixMuon:
    """torch's Muon, with its momentum in one flat block that is there from the start."""

    def __init__(self, matrices: list[nn.Parameter], config: OptimizerConfig) -> None:
        self._optimizer = torch.optim.Muon(
            matrices,
            weight_decay=config.weight_decay,
            momentum=config.momentum,
            adjust_lr_fn="match_rms_adamw",
        )
        self._momentum = torch.cat([torch.zeros_like(matrix).ravel() for matrix in matrices]).detach()
        for matrix, buffer in zip(matrices, _views(self._momentum, matrices), strict=True):
            self._optimizer.state[matrix]["momentum_buffer"] = buffer

    def step(self, learning_rate: float) -> None:
        self._optimizer.param_groups[0]["lr"] = learning_rate
        self._optimizer.step()  # type: ignore[no-untyped-call]

    def capture(self) -> dict[str, Tensor]:
        return {"momentum": self._momentum.cpu().clone()}

    def restore(self, state: dict[str, Any]) -> None:
        self._momentum.copy_(state["momentum"])


def _views(flat: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    pieces = torch.split(flat, [parameter.numel() for parameter in parameters])
    return [piece.view_as(parameter) for piece, parameter in zip(pieces, parameters, strict=True)]


LOOKED_UP = (nn.Embedding, nn.EmbeddingBag)


class ParameterGroups(NamedTuple):
    adam: list[nn.Parameter]
    muon: list[nn.Parameter]


def group_parameters(policy: nn.Module) -> ParameterGroups:
    """Every parameter in exactly one group, in the policy's order within each.

    Muon is made for the matrices between hidden layers: it gives every direction of such a matrix a step of the same
    size. A table of embeddings is no such matrix (its rows are looked up one by one), and neither is a head: its few
    rows differ in scale on purpose. Both, and everything that is not a matrix, stay with Adam.
    """
    groups = ParameterGroups([], [])
    head_rows = _head_rows(policy)
    for module, name, parameter in _owned_parameters(policy):
        is_muons = is_hidden_matrix(module, name, parameter, head_rows)
        (groups.muon if is_muons else groups.adam).append(parameter)
    return groups


def is_hidden_matrix(module: nn.Module, name: str, parameter: nn.Parameter, head_rows: set[int]) -> bool:
    """A 2-D weight of a layer, not a table, with another number of rows than a head of this policy has.

    Matrices that are not called weight… (learned queries, coordinates) are tables by another name.
    """
    is_weight = parameter.ndim == 2 and name.startswith("weight")
    return is_weight and not isinstance(module, LOOKED_UP) and parameter.shape[0] not in head_rows


def _head_rows(policy: nn.Module) -> set[int]:
    """Rows of the value head and of the action head. A hidden layer of just that width goes to Adam, too."""
    return {1, head_size(policy.interface.action_space)} if isinstance(policy, Agent) else {1}


def _owned_parameters(policy: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Parameter]]:
    """As `policy.parameters()`: each once, with the module that holds it and its name there."""
    yielded: set[int] = set()
    for module in policy.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in yielded:
                yielded.add(id(parameter))
                yield module, name, parameter


class Regularizer:
    """Clips and pulls all weights alike: one operation per step on the flat block, whatever policy they belong to."""

    def __init__(self, config: RegularizeConfig, flat: Tensor) -> None:
        self._config = config
        self._initial = flat.detach().clone() if config.l2_init else None  # part of the trainer's state

    def add_gradients(self, grad: Tensor, flat: Tensor) -> None:
        """Before the gradient is clipped: the gradients of l2 / 2 |w|^2 and of l2_init / 2 |w - initial|^2."""
        if self._config.l2:
            grad.add_(flat, alpha=self._config.l2)
        if self._initial is not None:
            grad.add_(flat - self._initial, alpha=self._config.l2_init)

    def bound(self, flat: Tensor) -> None:
        """After the step: every weight within ± clip_range."""
        clip_range = self._config.clip_range
        if clip_range is not None:
            flat.clamp_(-clip_range, clip_range)

    def capture(self) -> dict[str, Tensor]:
        return {} if self._initial is None else {"initial": self._initial.clone()}

    def restore(self, state: dict[str, Any]) -> None:
        if self._initial is not None:
            self._initial.copy_(state["initial"])
