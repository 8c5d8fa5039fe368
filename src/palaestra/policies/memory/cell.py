"""What every kind of memory offers, whoever builds a network with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

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

    if TYPE_CHECKING:

        def __call__(self, sequence: Tensor, memory: Parts, starts: Tensor | None = None) -> tuple[Tensor, Parts]: ...


def forget(memory: Parts, starts: Tensor) -> Parts:
    """Zeros where an episode begins; `starts` [B] bool."""
    keep = (~starts).unsqueeze(-1)
    return tuple(part * keep for part in memory)
