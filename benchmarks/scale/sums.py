"""Sums among real processes: through shared memory, over loopback, and between namespaces with a delay."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from palaestra.training.distributed.rank_info import open_memory_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scale.delay_network import Machine

PROCESS = Path(__file__).with_name("sum_process.py")
ROOT = Path(__file__).parents[2]
SECONDS = 300.0  # of one measurement at most
MEMORY = "PALAESTRA_MEMORY_FD"


@dataclass(frozen=True)
class SumFigure:
    algorithm: str  # memory, ring (gloo's all_reduce), ordered (ours), one round, two rounds
    ranks: int
    numbers: int  # of float32
    seconds: float  # of one sum, median over repetitions, of the slowest rank
    cpu_seconds: float  # of one sum, mean over ranks
    delay_seconds: float = 0.0  # one way, between any two ranks


def measure_memory(ranks: int, numbers: Sequence[int], repeats: int) -> list[SumFigure]:
    descriptor = open_memory_file()
    try:
        outputs = run_ranks(ranks, {"numbers": list(numbers), "repeats": repeats}, memory=descriptor)
    finally:
        os.close(descriptor)
    return summarize(ranks, outputs)


def measure_gloo(
    ranks: int,
    numbers: Sequence[int],
    repeats: int,
    algorithms: Sequence[str] = ("ring", "ordered"),
    machines: Sequence[Machine] = (),
    delay_seconds: float = 0.0,
) -> list[SumFigure]:
    """Over loopback, or one rank on each of `machines`."""
    request = {"numbers": list(numbers), "repeats": repeats, "algorithms": list(algorithms)}
    return summarize(ranks, run_ranks(ranks, request, machines=machines), delay_seconds)


def run_ranks(
    ranks: int, request: dict, *, memory: int | None = None, machines: Sequence[Machine] = ()
) -> list[list[dict]]:
    address = machines[0].address if machines else "127.0.0.1"
    common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": address, "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    if memory is not None:
        common[MEMORY] = str(memory)
    processes = []
    for rank in range(ranks):
        machine = machines[rank] if machines else None
        interface = {"GLOO_SOCKET_IFNAME": machine.interface if machine else "lo"}
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        processes.append(
            subprocess.Popen(
                [*(machine.prefix if machine else ()), sys.executable, str(PROCESS), json.dumps(request)],
                env={**os.environ, **common, **interface, "RANK": str(rank), "PYTHONPATH": path},
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=() if memory is None else (memory,),
            )
        )
    try:
        outputs = [process.communicate(timeout=SECONDS)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError(f"Ranks of a sum ended with {codes}.")
    return [json.loads(output) for output in outputs]


def summarize(ranks: int, outputs: list[list[dict]], delay_seconds: float = 0.0) -> list[SumFigure]:
    figures = []
    for rows in zip(*outputs, strict=True):
        medians = [median(row["seconds"]) for row in rows]
        cpu = sum(row["cpu_seconds"] for row in rows) / ranks
        figures.append(SumFigure(rows[0]["algorithm"], ranks, rows[0]["numbers"], max(medians), cpu, delay_seconds))
    return figures


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
