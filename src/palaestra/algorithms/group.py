"""The processes that train together. One process is a group of one; nobody asks which it is.

A collective is a call that every process of the group makes, in the same order. None may stand in code that only
some of them reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from palaestra.core.errors import RunFailed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor


class PeerLost(RunFailed):
    """Another process of the group failed, left or fell silent; this one ends as a consequence, never as the cause."""


class Reducer(Protocol):
    """Sums over all processes in the middle of a native update; an object of the compiled module."""

    def sum(self, values: NDArray[np.floating[Any]]) -> None:
        """In place; float32 or float64."""


class Group:
    """A group of one: what others would add to is already the sum, what they would hear is already known."""

    rank = 0
    local_rank = 0
    world_size = 1

    @property
    def is_leader(self) -> bool:
        return self.rank == 0

    @property
    def waited_seconds(self) -> float:
        """In collectives, since the group was opened: mostly for whoever comes last."""
        return 0.0

    @property
    def reducer(self) -> Reducer | None:
        """What the native engine sums with inside an update; None: alone."""
        return None

    def explain_loss(self, message: str) -> str:
        """The message of a PeerLost, with what is known by now of how the other process ended."""
        return message

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

    def max_over_ranks(self, *values: int) -> tuple[int, ...]:
        """The largest of each wish over all processes: what one wants, all do, at the same moment."""
        return values

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """For the leader what every process gave, in the order of ranks; for the others an empty list."""
        return [data]

    def broadcast_bytes(self, data: bytes) -> bytes:
        """What the leader gave, for everybody."""
        return data

    def barrier(self) -> None:
        """Returns when every process has come here."""

    def post_failure(self, message: str) -> None:
        """Tell the others why this process ends: they find it when they wait for it. The first failure stays."""

    def close(self) -> None:
        """No collective may follow."""


ALONE = Group()
