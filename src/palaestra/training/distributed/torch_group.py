"""A group of several processes, over torch.distributed.

Bytes travel as tensors of bytes and are never unpickled. A collective that fails is always a consequence here: the
cause is in the process that left, and comes with the heartbeats (heartbeat.py).
"""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from palaestra.algorithms.group import Group, PeerLost
from palaestra.training.distributed.addresses import NCCL_INTERFACE
from palaestra.training.distributed.ordered_sum import exchange, sum_in_rank_order
from palaestra.training.distributed.peer_watch import UNKNOWN_END, PeerWatch
from palaestra.training.distributed.shared_memory_group import reducer_of, share_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import timedelta

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor
    from torch._C._distributed_c10d import Store

    from palaestra.algorithms.group import Reducer
    from palaestra.training.distributed.addresses import Endpoint
    from palaestra.training.distributed.heartbeat import Heartbeat
    from palaestra.training.distributed.shared_memory_group import RankMemory

ORDERED_DTYPES = (torch.float32, torch.float64)
EXPLAIN_SECONDS = 3.0  # gloo may notice the end of a connection before the heartbeat knows the cause


class TorchGroup(Group):
    def __init__(
        self,
        local_rank: int,
        timeout_seconds: float,
        heartbeat: Heartbeat,
        connections: ProcessGroupConnections,
        processes: Mapping[int, str],
    ) -> None:
        """The process group is open already; `processes`: by rank, as `describe_process` gave them."""
        self.rank = dist.get_rank()
        self.local_rank = local_rank
        self.world_size = dist.get_world_size()
        self._waited_seconds = 0.0
        self._memory: RankMemory | None = None  # beside the network, for the native engine
        self._timeout_seconds = timeout_seconds
        self._heartbeat = heartbeat
        self._connections = connections
        self._watch = PeerWatch(processes, heartbeat.report_end)
        heartbeat.on_failure = self._wake
        if heartbeat.cause():  # it came while the group was opened
            self._wake()

    def close(self) -> None:
        self._watch.close()
        self.__dict__.pop("reducer", None)  # it refers to this group; nanobind's objects are not collected
        self._heartbeat.close()
        dist.destroy_process_group()

    def _wake(self) -> None:
        """Another rank is lost: collectives that wait for it fail now. Called by the heartbeat's thread."""
        self._connections.break_all()
        if self._memory is not None:
            self._memory.post_failure(self._heartbeat.cause())

    @property
    def waited_seconds(self) -> float:
        return self._waited_seconds + (self._memory.waited_seconds if self._memory else 0.0)

    @cached_property
    def reducer(self) -> Reducer:
        """Memory where all ranks are on one machine, and else gloo. Asked for first by all ranks at the same point."""
        self._memory = share_memory(self, self._timeout_seconds)
        return self._memory or reducer_of(self._sum_array, self.world_size)

    def _sum_array(self, array: NDArray[np.floating[Any]]) -> None:
        self.sum_(torch.from_numpy(array))

    def explain_loss(self, message: str) -> str:
        """The shared memory sees that a rank is gone, and not how; the heartbeat knows the first cause."""
        return self._heartbeat.cause(EXPLAIN_SECONDS if message.endswith(f"{UNKNOWN_END}.") else 0.0) or message

    def sum_(self, tensor: Tensor) -> Tensor:
        """On the CPU in the order of ranks, as shared memory does it; on devices the backend decides."""
        with self._together():
            if tensor.is_cpu and tensor.dtype in ORDERED_DTYPES:
                values = tensor.detach().contiguous()
                sum_in_rank_order(values.view(-1), self.rank, self.world_size)
                if values.data_ptr() != tensor.data_ptr():
                    tensor.detach().copy_(values)
            else:
                dist.all_reduce(tensor)
        return tensor

    def average_(self, tensor: Tensor) -> Tensor:
        return self.sum_(tensor).div_(self.world_size)

    def stack(self, tensor: Tensor) -> Tensor:
        with self._together():
            if tensor.is_cpu:
                return exchange(tensor, self.world_size)
            parts = [torch.empty_like(tensor) for _ in range(self.world_size)]
            dist.all_gather(parts, tensor.contiguous())
        return torch.stack(parts)

    def broadcast_(self, tensor: Tensor) -> Tensor:
        with self._together():
            dist.broadcast(tensor, src=0)
        return tensor

    def max_over_ranks(self, *values: int) -> tuple[int, ...]:
        return tuple(self.stack(torch.tensor(values, dtype=torch.int64)).amax(dim=0).tolist())

    def gather_bytes(self, data: bytes) -> list[bytes]:
        sizes = self.stack(torch.tensor([len(data)])).flatten().tolist()
        with self._together():
            if not self.is_leader:
                if data:
                    dist.send(_tensor_of(data), dst=0)
                return []
            return [data, *(self._receive(rank, sizes[rank]) for rank in range(1, self.world_size))]

    def broadcast_bytes(self, data: bytes) -> bytes:
        size = int(self.broadcast_(torch.tensor([len(data)])))
        content = _tensor_of(data) if self.is_leader else torch.empty(size, dtype=torch.uint8)
        return _bytes_of(self.broadcast_(content)) if size else b""

    def barrier(self) -> None:
        with self._together():
            dist.barrier()

    def post_failure(self, message: str) -> None:
        """Tell the others why this rank ends. The first failure stays."""
        if self._memory is not None:
            self._memory.post_failure(message)
        self._heartbeat.report_failure(message)

    def _receive(self, rank: int, size: int) -> bytes:
        buffer = torch.empty(size, dtype=torch.uint8)
        if size:
            dist.recv(buffer, src=rank)
        return _bytes_of(buffer)

    @contextmanager
    def _together(self) -> Iterator[None]:
        began = perf_counter()
        try:
            yield
        except RuntimeError as error:
            raise PeerLost(self._explain(str(error))) from error
        self._waited_seconds += perf_counter() - began

    def _explain(self, reason: str) -> str:
        is_late = "imed out" in reason or "imeout" in reason
        if cause := self._heartbeat.cause(0.0 if is_late else EXPLAIN_SECONDS):
            return cause
        if not is_late:
            return "Another rank ended without a word."
        late = f"Another rank did not answer within {self._timeout_seconds:g} s (distributed.timeout_seconds)."
        self._heartbeat.report_failure(late)
        return late


def _tensor_of(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def _bytes_of(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


GLOO_HERE = "gloo_at_address"  # the name of our backend: gloo, bound to one address
OPEN_FILES = Path("/proc/self/fd")


class ProcessGroupConnections:
    """The sockets that torch opened for its process group; found by comparing the open files before and after."""

    def __init__(self, before: dict[int, str], after: dict[int, str]) -> None:
        self._sockets = {fd: name for fd, name in after.items() if before.get(fd) != name}

    def break_all(self) -> None:
        """Every collective that waits on them fails at once. Safe from any thread, also if descriptors were reused."""
        for descriptor, name in self._sockets.items():
            if _socket_name(descriptor) != name:
                continue
            with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
                is_listening = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if not is_listening:  # gloo takes an error of its listener for the end of the world
                    connection.shutdown(socket.SHUT_RDWR)


def open_process_group(
    backend: str, store: Store, rank: int, world_size: int, timeout: timedelta, endpoint: Endpoint
) -> ProcessGroupConnections:
    """`dist.init_process_group` with gloo bound to the endpoint's address, and nccl to its interface."""
    if "nccl" in backend and endpoint.interface:
        os.environ.setdefault(NCCL_INTERFACE, f"={endpoint.interface}")
    dist.Backend.register_backend(GLOO_HERE, partial(_make_gloo, endpoint.address), devices=["cpu"])
    before = open_sockets()
    dist.init_process_group(
        backend.replace("gloo", GLOO_HERE), store=store, rank=rank, world_size=world_size, timeout=timeout
    )
    return ProcessGroupConnections(before, open_sockets())


def open_sockets() -> dict[int, str]:
    """By descriptor: the kernel's name, which no other socket ever has. Empty where the system does not tell."""
    try:
        descriptors = [int(name) for name in os.listdir(OPEN_FILES)]  # noqa: PTH208  names only
    except OSError:
        return {}
    names = {descriptor: _socket_name(descriptor) for descriptor in descriptors}
    return {descriptor: name for descriptor, name in names.items() if name}


def _make_gloo(address: str, store: Store, rank: int, world_size: int, timeout: timedelta) -> dist.ProcessGroupGloo:
    # the only way to name a device
    options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._timeout = timeout
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=address, lazy_init=False)]
    return dist.ProcessGroupGloo(store, rank, world_size, options)


def _socket_name(descriptor: int) -> str:
    try:
        name = str((OPEN_FILES / str(descriptor)).readlink())
    except OSError:  # closed meanwhile
        return ""
    return name if name.startswith("socket:") else ""
