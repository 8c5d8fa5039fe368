"""The interface of every recurrent cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

Parts = tuple[Tensor, ...]  # each [B, size]


class Cell(nn.Module):
    """A sequence of T steps gives what T sequences of one step give; a fresh memory is zeros."""

    parts: ClassVar[tuple[str, ...]]  # what the memory consists of

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, sequence: Tensor, memory: Parts, starts: Tensor | None = None) -> tuple[Tensor, Parts]:
        """`sequence` [T, B, inputs], `starts` [T, B] bool -> [T, B, size] and the memory after the last step."""
        raise NotImplementedError

    def start_remembering(self, steps: int) -> None:
        """Open the gates so that memories last from one to `steps` steps before anything is learned."""
        raise NotImplementedError

    if TYPE_CHECKING:

        def __call__(self, sequence: Tensor, memory: Parts, starts: Tensor | None = None) -> tuple[Tensor, Parts]: ...


def lasting(size: int, steps: int) -> Tensor:
    """[size] Gate biases b for which sigmoid(b) keeps a number for U steps, U uniform from 1 to `steps`.

    A cell whose gates begin half open forgets within a few steps, and no gradient reaches further back than that.
    """
    return torch.empty(size).uniform_(1.0, steps).log()


def forget(memory: Parts, starts: Tensor) -> Parts:
    """Zeros where an episode begins; `starts` [B] bool."""
    keep = (~starts).unsqueeze(-1)
    return tuple(part * keep for part in memory)
