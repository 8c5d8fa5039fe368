"""Nothing is learned here, or next to nothing: flatten, merge, normalise, bend."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from palaestra.config.base import Frozen
from palaestra.policies.activations import ACTIVATIONS, ActivationName
from palaestra.policies.components.base import Component, Misfit, Signal, refuse_raw

if TYPE_CHECKING:
    from palaestra.core.spaces import EnvInterface


class Flatten(Component):
    """Any shape as one vector."""

    def __init__(self, inputs: tuple[Signal, ...], settings: Frozen, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        refuse_raw(inputs[0])
        self.emit(prod(inputs[0].shape))

    def forward(self, rows: Tensor) -> Tensor:
        return rows.flatten(1)


class ActivationSettings(Frozen):
    function: ActivationName = Field("relu", description="which one")


class Activation(Component):
    """An activation on its own."""

    Settings = ActivationSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: ActivationSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        refuse_raw(inputs[0])
        self.function = ACTIVATIONS[settings.function]
        self.emit(*inputs[0].shape)

    def forward(self, rows: Tensor) -> Tensor:
        return self.function(rows)


class NormSettings(Frozen):
    axes: Literal["last", "all"] = Field("last", description="normalise over the last axis, or over all of a row")


class Norm(Component):
    """Layer normalisation: mean 0 and deviation 1 within each row, then a learned scale and shift."""

    Settings = NormSettings

    def __init__(self, inputs: tuple[Signal, ...], settings: NormSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        refuse_raw(inputs[0])
        shape = inputs[0].shape
        if prod(shape) < 2:
            raise Misfit(f"cannot normalise {inputs[0]}: one number has no spread")
        self.norm = nn.LayerNorm(shape[-1:] if settings.axes == "last" else shape)
        self.emit(*shape)

    def forward(self, rows: Tensor) -> Tensor:
        return layer_norm(rows, self.norm.normalized_shape, self.norm.weight, self.norm.bias)


class MergeSettings(Frozen):
    how: Literal["concat", "add", "mean"] = Field("concat", description="side by side, summed, or averaged")


class Merge(Component):
    """Several nodes as one. Vectors of any length can stand side by side; sums and means need equal shapes."""

    Settings = MergeSettings
    input_count = (2, None)

    def __init__(self, inputs: tuple[Signal, ...], settings: MergeSettings, interface: EnvInterface) -> None:
        super().__init__(inputs, settings, interface)
        for signal in inputs:
            refuse_raw(signal)
        self.how = settings.how
        first, *others = inputs
        if settings.how == "concat":
            if any(signal.shape[1:] != first.shape[1:] or not signal.shape for signal in inputs):
                raise Misfit(f"cannot put {_listed(inputs)} side by side; only the first axis may differ")
            self.emit(sum(signal.shape[0] for signal in inputs), *first.shape[1:])
            return
        if any(signal.shape != first.shape for signal in others):
            raise Misfit(f"cannot {'add' if settings.how == 'add' else 'average'} {_listed(inputs)}")
        self.emit(*first.shape)

    def forward(self, *rows: Tensor) -> Tensor:
        if self.how == "concat":
            return torch.cat(rows, dim=1)
        total = rows[0] + rows[1]
        for more in rows[2:]:
            total = total + more
        return total if self.how == "add" else total / len(rows)


def _listed(inputs: tuple[Signal, ...]) -> str:
    return " and ".join(map(str, inputs))
