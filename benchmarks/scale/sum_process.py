"""One rank of a measurement of sums: `python sum_process.py '{"numbers": [10000], "repeats": 100, ...}'`.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say who takes part; with PALAESTRA_MEMORY_FD the ranks share memory.
Prints one line of JSON: a list of figures, each with wall-clock seconds of every sum and CPU seconds of one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MEMORY = "PALAESTRA_MEMORY_FD"


def main(request: dict[str, Any]) -> list[dict[str, Any]]:
    if MEMORY in os.environ:
        return measure_memory(request)
    return measure_gloo(request)


def measure_memory(request: dict[str, Any]) -> list[dict[str, Any]]:
    import numpy as np

    from palaestra.training.distributed.shared_memory_group import map_memory

    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    memory = map_memory(int(os.environ[MEMORY]), rank, world_size, 60.0)
    if memory is None:
        sys.exit("The native engine is not compiled.")
    figures = []
    for count in request["numbers"]:
        values = np.zeros(count, np.float32)
        seconds, cpu = clock(lambda values=values: memory.sum(values), memory.barrier, request["repeats"])
        figures.append({"algorithm": "memory", "numbers": count, "seconds": seconds, "cpu_seconds": cpu})
    return figures


def measure_gloo(request: dict[str, Any]) -> list[dict[str, Any]]:
    import torch
    import torch.distributed as dist

    from palaestra.training.distributed import ordered_sum

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()

    def add_directly(values: torch.Tensor) -> None:
        ordered_sum.sum_in_rank_order(values, rank, world_size)

    def add_in_one_round(values: torch.Tensor) -> None:
        values.copy_(ordered_sum.add_rows(ordered_sum.exchange(values, world_size)))

    def add_in_two_rounds(values: torch.Tensor) -> None:
        ordered_sum._sum_in_chunks(values, rank, world_size)

    algorithms: dict[str, Callable[[torch.Tensor], Any]] = {
        "ring": dist.all_reduce,
        "ordered": add_directly,
        "one round": add_in_one_round,
        "two rounds": add_in_two_rounds,
    }
    figures = []
    for count in request["numbers"]:
        for name in request["algorithms"]:
            values, add = torch.zeros(count), algorithms[name]
            seconds, cpu = clock(lambda values=values, add=add: add(values), dist.barrier, request["repeats"])
            figures.append({"algorithm": name, "numbers": count, "seconds": seconds, "cpu_seconds": cpu})
    dist.barrier()
    dist.destroy_process_group()
    return figures


def clock(work: Callable[[], Any], barrier: Callable[[], Any], repeats: int) -> tuple[list[float], float]:
    for _ in range(3):
        work()
    barrier()
    cpu, seconds = time.process_time(), []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return seconds, (time.process_time() - cpu) / repeats


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))), flush=True)
