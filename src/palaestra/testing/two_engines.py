"""One rollout, learned from by the native engine and by torch: what tests of an engine lay side by side."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from palaestra.algorithms.group import ALONE
from palaestra.algorithms.ppo.algorithm import Ppo
from palaestra.algorithms.ppo.update import update
from palaestra.algorithms.rollout import Rollout
from palaestra.core.errors import RunFailed
from palaestra.training.engines.native_ppo import NativePpo
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig
    from palaestra.core.reports import IterationReport, PpoStats
    from palaestra.training.state import TrainingState

RECORDED = ("actions", "log_probs", "values", "next_values", "rewards")
MEMORY_DISTANCE = 1e-5  # of what both remember, after a rollout


class Comparison(NamedTuple):
    gradient: float  # distances
    movement: float  # of all weights since the beginning
    ours: PpoStats
    theirs: PpoStats
    rollout: Rollout  # the last one


def distance(ours: Tensor, theirs: Tensor) -> float:
    """Relative, of all numbers as one vector."""
    return float((ours.double() - theirs.double()).norm() / theirs.double().norm())


def play(state: TrainingState) -> Rollout:
    """One by the native engine, copied, with the memory before each segment that torch has there."""
    ppo = native_ppo(state)
    memory = {name: part.clone() for name, part in ppo.tensors.memory.items()}
    ppo.compute._collect(ppo, state.progress)
    starts = torch.from_numpy(ppo.buffer.starts.copy())
    observations = copy.deepcopy(ppo.buffer.observations)
    memories = []
    for first in range(0, ppo.buffer.horizon, ppo.segment_length) if memory else ():
        memories.append(memory)
        steps = slice(first, first + ppo.segment_length)
        with torch.no_grad():
            memory = ppo.policy()(_part(observations, steps), memory, starts[:-1][steps]).memory
    for name, part in memory.items():
        if not distance(ppo.tensors.memory[name], part) < MEMORY_DISTANCE:  # nor is NaN near
            raise RunFailed(f"The engines remember different things in '{name}'.")
    return Rollout(
        observations=observations,
        ended=starts[1:],
        starts=starts[:-1],
        memory={name: torch.stack([each[name] for each in memories]) for name in memory},
        **{name: torch.from_numpy(ppo.compute.arrays[name].copy()) for name in RECORDED},
    )


def learn_by_both(settings: TrainConfig, updates: int = 1, group: Group = ALONE) -> Comparison:
    """Both begin alike and learn from the same rollouts, in the same order; with others, on every rank."""
    state = new_training_state(settings, group)
    native, by_torch = native_ppo(state), native_ppo(new_training_state(settings, group))
    if native.tensors.memory:  # the rollout to learn from begins with one
        native.compute._collect(native, state.progress)
        native.buffer.rewind()
    initial = native.tensors.optimizer.flat.clone()
    for _ in range(updates):
        rollout = play(state)
        by_torch.shuffler = copy.deepcopy(native.shuffler)
        ours = native.compute._update(native, state.progress)
        theirs = learn_by_torch(by_torch, rollout, torch.from_numpy(native.compute.arrays["advantages"].copy()))
        by_torch.policy().take_in(rollout.observations, group.stack)
        state.iteration += 1
    one, other = native.tensors.optimizer, by_torch.tensors.optimizer
    movement = distance(one.flat - initial, other.flat - initial)
    return Comparison(distance(one.grad, other.grad), movement, ours, theirs, rollout)


def learn_by_torch(ppo: Ppo, rollout: Rollout, advantages: Tensor) -> PpoStats:
    return update(
        ppo.tensors.agent,
        ppo.tensors.optimizer,
        rollout,
        advantages,
        ppo.config.ppo,
        0.0,
        ppo.shuffler,
        segment_length=ppo.tensors.segment_length,
        group=ppo.group,
    )


def run_on(state: TrainingState, iterations: int) -> list[IterationReport]:
    return [report for _, report in zip(range(iterations), train(state), strict=False)]


def facts(reports: Iterable[IterationReport]) -> list[tuple[Any, ...]]:
    """What must be reproducible: everything but times."""
    return [(report.update, report.episodes, report.metrics) for report in reports]


def weights(state: TrainingState) -> bytes:
    return ppo_of(state).tensors.optimizer.flat.numpy().tobytes()


def ppo_of(state: TrainingState) -> Ppo:
    assert isinstance(state.algorithm, Ppo)
    return state.algorithm


def native_ppo(state: TrainingState) -> NativePpo:
    if not isinstance(state.algorithm, NativePpo):
        raise RunFailed(f"This is the engine '{state.algorithm.engine}'.")
    return state.algorithm


def _part(observations: Any, steps: slice) -> Any:
    if isinstance(observations, dict):
        return {name: part[steps] for name, part in observations.items()}
    return observations[steps]
