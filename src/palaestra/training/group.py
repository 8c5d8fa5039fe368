"""The processes that train together. One process is a group of one; nobody asks which it is.

A collective is a call that every process of the group makes, in the same order. None may stand in code that only
some of them reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.contracts.errors import RunFailed

if TYPE_CHECKING:
    from torch import Tensor


class PeerLost(RunFailed):
    """Another process of the group failed, left or fell silent; this one ends as a consequence, never as the cause."""


class Group:
    """A group of one: what others would add to is already the sum, what they would hear is already known."""

    rank = 0
    local_rank = 0
    world_size = 1
    waited_seconds = 0.0  # in collectives, since the group was opened: mostly for whoever comes last

    @property
    def is_leader(self) -> bool:
        return self.rank == 0

    def sum_(self, tensor: Tensor) -> Tensor:
        """In place: the sum over all processes."""
        return tensor

    def average_(self, tensor: Tensor) -> Tensor:
        """In place: the mean over all processes."""
        return tensor

    def stack(self, tensor: Tensor) -> Tensor:
        """[world_size, …]: every process's tensor, for everybody, in the order of ranks."""
        return tensor.unsqueeze(0)

    def broadcast_(self, tensor: Tensor) -> Tensor:
        """In place: the leader's values."""
        return tensor

    def agree(self, *wishes: int) -> tuple[int, ...]:
        """The largest of each wish over all processes: what one wants, all do, at the same moment."""
        return wishes

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """For the leader what every process gave, in the order of ranks; for the others an empty list."""
        return [data]

    def tell(self, data: bytes) -> bytes:
        """What the leader gave, for everybody."""
        return data

    def barrier(self) -> None:
        """Returns when every process has come here."""


ALONE = Group()
