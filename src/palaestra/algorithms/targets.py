"""Target networks: copies that follow a trained network, in one flat block like the network itself."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import nn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.algorithms.optimizers import FlatOptimizer

Network = TypeVar("Network", bound=nn.Module)


class TargetNetwork(Generic[Network]):
    def __init__(self, network: Network, optimizer: FlatOptimizer, shared: NDArray[np.float32] | None = None) -> None:
        """`optimizer` trains exactly this network. `shared`: memory in which an engine keeps the target already."""
        self.network = deepcopy(network).requires_grad_(requires_grad=False)
        self.flat = optimizer.flat.detach().clone() if shared is None else torch.from_numpy(shared)
        self._source = optimizer.flat
        optimizer.lay_out(self.network, network, self.flat)

    @torch.no_grad()
    def follow(self, tau: float) -> None:
        """Go a part of the way to the trained weights; 1: become a copy."""
        if tau == 1:
            self.flat.copy_(self._source)
        else:
            self.flat.lerp_(self._source, tau)

    def capture(self) -> Tensor:
        """On the CPU, copied; in the order of the optimizer's block."""
        return self.flat.cpu().clone()

    def restore(self, saved: Tensor) -> None:
        self.flat.copy_(saved)
