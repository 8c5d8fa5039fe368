"""What one rank does in an update, measured alone; and several real ranks, to compare the model with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import palaestra.apps.arena  # noqa: F401  registers it, as the entry point does
from palaestra.algorithms.group import Group
from palaestra.config.recipes.registry import find_recipe
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig
from palaestra.training.distributed.rank_info import open_memory_file
from palaestra.training.distributed.shared_memory_group import reducer_of
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train
from scale.model import Workload
from scale.sums import MEMORY, ROOT, SECONDS, free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

PROCESS = Path(__file__).with_name("training_process.py")
LARGE = {"env_count": 256, "horizon": 64, "minibatch_size": 4096, "update_epochs": 4}
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "CartPole, 256 environments": ("cartpole", {"ppo": LARGE}),
    "HalfCheetah": ("halfcheetah", {}),
    "Arena": ("arena.basic_easy_shaped", {}),
}
ENDLESS = 10**15
WARM_UP = 2  # updates that are not measured


def config_of(name: str) -> TrainConfig:
    recipe, overrides = RECIPES[name]
    common = {"engine": "native", "torch_threads": 1, "total_steps": ENDLESS}
    return resolve_config(TrainConfig, find_recipe(recipe).config, {**overrides, **common})


class RecordingGroup(Group):
    """A group of one that notes when the native engine asks for a sum, and of how many numbers."""

    def __init__(self) -> None:
        self.sums: list[tuple[float, float, int]] = []  # asked at, answered at, numbers
        self._reducer = reducer_of(partial(note_sum, self.sums), 1)

    @property
    def reducer(self) -> Any:
        return self._reducer


def note_sum(sums: list[tuple[float, float, int]], values: NDArray[np.floating[Any]]) -> None:
    sums.append((perf_counter(), perf_counter(), values.size))


def measure_workload(name: str, seconds: float, small_collectives: int) -> Workload:
    """Whole updates for `seconds`. Between two sums of gradients lies one minibatch."""
    group = RecordingGroup()
    config = config_of(name)
    state = new_training_state(config, group)
    numbers = sum(parameter.numel() for parameter in state.algorithm.policy().parameters())
    reports, rollouts, minibatches, counts = train(state), [], [], []
    for _ in range(WARM_UP):
        next(reports)
    ends = perf_counter() + seconds
    while perf_counter() < ends or not rollouts:
        group.sums.clear()
        began = perf_counter()
        next(reports)
        rollouts.append(group.sums[0][0] - began + perf_counter() - group.sums[-1][1])
        gradients = [index for index, (_, _, size) in enumerate(group.sums) if size == numbers]
        minibatches += [group.sums[index][0] - group.sums[index - 1][1] for index in gradients]
        counts.append(len(gradients))
    return Workload(
        name,
        numbers,
        int(median(counts)),
        small_collectives,
        config.ppo.batch_size,
        tuple(rollouts),
        tuple(minibatches),
    )


@dataclass(frozen=True)
class TrainingFigure:
    name: str
    ranks: int
    transport: str  # memory, or over loopback: ring, ordered
    seconds: float  # of an update, median
    collectives: float  # of an update, beside the gradients


def measure_ranks(name: str, ranks: int, transport: str, updates: int) -> TrainingFigure:
    """Real processes that train together; the median of rank 0's updates."""
    memory = open_memory_file() if transport == "memory" else None
    common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    if memory is not None:
        common[MEMORY] = str(memory)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    arguments = [sys.executable, str(PROCESS), name, transport, str(updates)]
    processes = [
        subprocess.Popen(
            arguments,
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank), "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=() if memory is None else (memory,),
        )
        for rank in range(ranks)
    ]
    try:
        outputs = [process.communicate(timeout=SECONDS)[0] for process in processes]
    finally:
        if memory is not None:
            os.close(memory)
        for process in processes:
            process.kill()
    if any(process.wait() for process in processes):
        raise RuntimeError(f"{ranks} ranks of {name} over {transport} failed.")
    result = json.loads(outputs[0])
    return TrainingFigure(name, ranks, transport, median(result["seconds"]), result["collectives"])


def names(chosen: Sequence[str]) -> list[str]:
    return [name for name in RECIPES if not chosen or name in chosen]
