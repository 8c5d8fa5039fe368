"""One rank of a real training: `python training_process.py RECIPE memory|ring|ordered UPDATES` prints seconds."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from palaestra.config.distributed import DistributedConfig
from palaestra.training.distributed.joining import open_group
from palaestra.training.distributed.shared_memory_group import reducer_of
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train
from scale.training import WARM_UP, config_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.algorithms.group import Group

GRADIENT = 1_000  # numbers; whatever has fewer is a small collective


def main(name: str, transport: str, updates: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    with open_group(DistributedConfig()) as group:
        counter = [0]
        if group.world_size > 1 and transport != "memory":
            use_network(group, counter, is_ring=transport == "ring")
        reports = train(new_training_state(config_of(name), group))
        for _ in range(WARM_UP):
            next(reports)
        counter[0], seconds = 0, []
        for _ in range(updates):
            began = perf_counter()
            next(reports)
            seconds.append(perf_counter() - began)
        return {"seconds": seconds, "collectives": counter[0] / updates}


def use_network(group: Any, counter: list[int], *, is_ring: bool) -> Group:
    """As on several machines: no shared memory for the native engine. Counts collectives without gradients."""
    together = group._together

    @contextmanager
    def counted() -> Iterator[None]:
        counter[0] += 1
        with together():
            yield

    def add(array: Any) -> None:
        if array.size >= GRADIENT:
            counter[0] -= 1
        group.sum_(torch.from_numpy(array))

    def add_by_ring(tensor: torch.Tensor) -> torch.Tensor:
        with counted():
            dist.all_reduce(tensor)
        return tensor

    group._together = counted
    if is_ring:
        group.sum_ = add_by_ring
    group.__dict__["reducer"] = reducer_of(add, group.world_size)
    return group


if __name__ == "__main__":
    result = main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(json.dumps(result), flush=True)
