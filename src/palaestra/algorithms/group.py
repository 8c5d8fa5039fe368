"""The processes that train together. A single process is a group of one and takes the same path.

A collective is a call that every process of the group makes, in the same order. It must not stand in code that only
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
    """Another process of the group failed, left or stopped answering; this one ends as a consequence."""


class Reducer(Protocol):
    """Sums over all processes in the middle of a native update; an object of the compiled module."""

    def sum(self, values: NDArray[np.floating[Any]]) -> None:
        """In place; float32 or float64."""


class Group:
    """A group of one: its own values are already the sum, the maximum and the broadcast."""

    rank = 0
    local_rank = 0
    world_size = 1

    @property
    def is_leader(self) -> bool:
        return self.rank == 0

    @property
    def waited_seconds(self) -> float:
        """Time spent in collectives since the group was opened: mostly waiting for the slowest rank."""
        return 0.0

    @property
    def reducer(self) -> Reducer | None:
        """Sums over ranks inside a native update; None: there is one rank."""
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
        """[world_size, …]: every process's tensor in the order of ranks, on every process."""
        return tensor.unsqueeze(0)

    def broadcast_(self, tensor: Tensor) -> Tensor:
        """In place: the leader's values."""
        return tensor

    def max_over_ranks(self, *values: int) -> tuple[int, ...]:
        """The largest of each value over all processes: what one rank requests, all do at the same iteration."""
        return values

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """On the leader what every process passed, in the order of ranks; on the others an empty list."""
        return [data]

    def broadcast_bytes(self, data: bytes) -> bytes:
        """What the leader passed, on every process."""
        return data

    def barrier(self) -> None:
        """Returns when every process has called it."""

    def post_failure(self, message: str) -> None:
        """Publish why this process ends: the others raise it when they wait for this one. The first failure stays."""

    def close(self) -> None:
        """No collective may follow."""


ALONE = Group()
