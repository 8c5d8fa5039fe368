"""A group whose processes run on one machine and talk through shared memory (native/engine/collectives.hpp).

A sum of ten thousand numbers takes some microseconds, where gloo takes a hundred or more, and torch is not needed. The
memory is a file without a name: the launcher of the ranks opens it and passes it on.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from palaestra.algorithms.group import Group
from palaestra.core.lazy_import import lazy_import
from palaestra.training.distributed.rank_info import open_memory_file

native_learner: ModuleType | None
try:
    from palaestra.training.engines import native_learner
except ImportError:  # built without a C++ compiler
    native_learner = None

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.algorithms.group import Reducer
else:
    torch = lazy_import("torch")


TOKEN_SIZE = 16  # bytes by which ranks recognise the same file


class RankMemory(Protocol):
    """Of the compiled module. Everything raises PeerLost when another rank is lost."""

    @property
    def waited_seconds(self) -> float: ...
    def sum(self, values: NDArray[np.floating[Any]]) -> None: ...
    def gather(self, data: bytes, is_wanted: bool) -> list[bytes]: ...
    def barrier(self) -> None: ...
    def post_failure(self, message: str) -> None: ...


class SharedMemoryGroup(Group):
    def __init__(self, memory: RankMemory, rank: int, world_size: int) -> None:
        self.rank = self.local_rank = rank
        self.world_size = world_size
        self._memory: RankMemory | None = memory

    @property
    def waited_seconds(self) -> float:
        return self.reducer.waited_seconds

    @property
    def reducer(self) -> RankMemory:
        assert self._memory is not None, "the group is closed"
        return self._memory

    def sum_(self, tensor: Tensor) -> Tensor:
        values = tensor.detach().contiguous()
        if values.dtype in (torch.float32, torch.float64):
            self.reducer.sum(values.numpy())
        else:
            values = self.stack(values).sum(dim=0, dtype=values.dtype)
        return tensor if values.data_ptr() == tensor.data_ptr() else tensor.detach().copy_(values)

    def average_(self, tensor: Tensor) -> Tensor:
        return self.sum_(tensor).div_(self.world_size)

    def stack(self, tensor: Tensor) -> Tensor:
        own = tensor.detach().contiguous().numpy()
        parts = [np.frombuffer(part, own.dtype) for part in self.reducer.gather(own.tobytes(), is_wanted=True)]
        return torch.from_numpy(np.stack(parts).reshape(self.world_size, *own.shape))

    def broadcast_(self, tensor: Tensor) -> Tensor:
        own = tensor.detach().contiguous().numpy()
        leaders = np.frombuffer(bytearray(self.broadcast_bytes(own.tobytes())), own.dtype).reshape(own.shape)
        tensor.detach().copy_(torch.from_numpy(leaders))
        return tensor

    def max_over_ranks(self, *values: int) -> tuple[int, ...]:
        parts = self.reducer.gather(np.array(values, np.int64).tobytes(), is_wanted=True)
        largest = np.stack([np.frombuffer(part, np.int64) for part in parts]).max(axis=0)
        return tuple(int(value) for value in largest)

    def gather_bytes(self, data: bytes) -> list[bytes]:
        parts = self.reducer.gather(data, is_wanted=self.is_leader)
        return parts if self.is_leader else []

    def broadcast_bytes(self, data: bytes) -> bytes:
        return self.reducer.gather(data if self.is_leader else b"", is_wanted=True)[0]

    def barrier(self) -> None:
        self.reducer.barrier()

    def post_failure(self, message: str) -> None:
        self.reducer.post_failure(message)

    def close(self) -> None:
        self._memory = None


def map_memory(descriptor: int, rank: int, world_size: int, timeout_seconds: float) -> RankMemory | None:
    """The memory behind an open file, which belongs to it from now on; None where the native engine is not compiled."""
    if native_learner is None:
        return None
    os.set_inheritable(descriptor, False)  # noqa: FBT003  its only argument
    memory: RankMemory = native_learner.SharedMemoryCollectives(descriptor, rank, world_size, timeout_seconds)
    return memory


def reducer_of(function: Callable[[NDArray[np.floating[Any]]], None], world_size: int) -> Reducer:
    """For the native engine: sums by `function(array)`, which writes into the array."""
    assert native_learner is not None, "only the native engine asks for it"
    reducer: Reducer = native_learner.CallbackReducer(function, world_size)
    return reducer


def share_memory(group: Group, timeout_seconds: float) -> RankMemory | None:
    """A collective: memory for ranks that found each other over a network; None where not all see the same file."""
    own = open_memory_file() if group.is_leader else -1
    token = secrets.token_bytes(TOKEN_SIZE)
    if group.is_leader:
        os.pwrite(own, token, 0)
    message = group.broadcast_bytes(token + f"/proc/{os.getpid()}/fd/{own}".encode())
    if not group.is_leader:
        own = _open_same(message[TOKEN_SIZE:].decode(), message[:TOKEN_SIZE])
    (is_missing,) = group.max_over_ranks(int(own < 0 or native_learner is None))
    if group.is_leader:
        os.ftruncate(own, 0)
    group.barrier()  # the file is empty again
    if is_missing:
        if own >= 0:
            os.close(own)
        return None
    return map_memory(own, group.rank, group.world_size, timeout_seconds)


def _open_same(path: str, token: bytes) -> int:
    """A descriptor, or -1: on another machine there is nothing of that name, or something else."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return -1
    if os.pread(descriptor, TOKEN_SIZE, 0) == token:
        return descriptor
    os.close(descriptor)
    return -1
