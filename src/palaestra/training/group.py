"""The processes that train together. One process is a group of one; nobody asks which it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Group:
    """A group of one: what others would add to is already the sum."""

    rank = 0
    world_size = 1

    @property
    def is_leader(self) -> bool:
        return self.rank == 0

    def sum_(self, tensor: Tensor) -> Tensor:
        """In place: the sum over all processes. Every process must call it, in the same order."""
        return tensor

    def average_(self, tensor: Tensor) -> Tensor:
        """In place: the mean over all processes. Every process must call it, in the same order."""
        return tensor


ALONE = Group()
