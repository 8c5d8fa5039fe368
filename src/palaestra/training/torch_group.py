"""A group of several processes, over torch.distributed.

Bytes travel as tensors of bytes and are never unpickled. A collective that fails is always a consequence here: the
cause is in the process that left, which put it on the notice board before it closed its connections.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from palaestra.training.group import Group, PeerLost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor
    from torch._C._distributed_c10d import Store

NOTICE = "palaestra/first_failure"


class TorchGroup(Group):
    def __init__(self, store: Store, local_rank: int, timeout_seconds: float) -> None:
        """The process group is open already; `store` is where its processes met."""
        self.rank = dist.get_rank()
        self.local_rank = local_rank
        self.world_size = dist.get_world_size()
        self.waited_seconds = 0.0
        self._store = store
        self._timeout_seconds = timeout_seconds

    def sum_(self, tensor: Tensor) -> Tensor:
        with self._together():
            dist.all_reduce(tensor)
        return tensor

    def average_(self, tensor: Tensor) -> Tensor:
        return self.sum_(tensor).div_(self.world_size)

    def stack(self, tensor: Tensor) -> Tensor:
        parts = [torch.empty_like(tensor) for _ in range(self.world_size)]
        with self._together():
            dist.all_gather(parts, tensor.contiguous())
        return torch.stack(parts)

    def broadcast_(self, tensor: Tensor) -> Tensor:
        with self._together():
            dist.broadcast(tensor, src=0)
        return tensor

    def agree(self, *wishes: int) -> tuple[int, ...]:
        largest = torch.tensor(wishes, dtype=torch.int64)
        with self._together():
            dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        return tuple(largest.tolist())

    def gather_bytes(self, data: bytes) -> list[bytes]:
        sizes = self.stack(torch.tensor([len(data)])).flatten().tolist()
        with self._together():
            if not self.is_leader:
                if data:
                    dist.send(_tensor_of(data), dst=0)
                return []
            return [data, *(self._receive(rank, sizes[rank]) for rank in range(1, self.world_size))]

    def tell(self, data: bytes) -> bytes:
        size = int(self.broadcast_(torch.tensor([len(data)])))
        content = _tensor_of(data) if self.is_leader else torch.empty(size, dtype=torch.uint8)
        return _bytes_of(self.broadcast_(content)) if size else b""

    def barrier(self) -> None:
        with self._together():
            dist.barrier()

    def post_failure(self, message: str) -> None:
        """Put the cause where the others look when their collectives fail. The first one stays."""
        try:
            self._store.compare_set(NOTICE, "", json.dumps({"rank": self.rank, "message": message}))
        except RuntimeError:  # the board itself is gone: its keeper was the first to end
            return

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
        self.waited_seconds += perf_counter() - began

    def _explain(self, reason: str) -> str:
        posted = self._posted()
        if posted is not None:
            return f"Rank {posted['rank']} failed first: {posted['message']}"
        if "imed out" in reason or "imeout" in reason:
            return f"Another rank did not answer within {self._timeout_seconds:g} s (distributed.timeout_seconds)."
        first_line = reason.strip().partition("\n")[0]
        return f"Another rank ended without a word ({first_line})."

    def _posted(self) -> dict[str, str] | None:
        try:
            notice = self._store.get(NOTICE) if self._store.check([NOTICE]) else b""
        except RuntimeError:
            return None
        return json.loads(notice) if notice else None


def _tensor_of(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def _bytes_of(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()
