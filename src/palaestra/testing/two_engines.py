"""One rollout, learned from by the native engine and by torch: what tests of an engine lay side by side."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from palaestra.algorithms.group import ALONE
from palaestra.algorithms.ppo.update import update
from palaestra.algorithms.rollout import Rollout
from palaestra.core.errors import RunFailed
from palaestra.training.engines.native_engine import NativeEngine
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig
    from palaestra.core.reports import IterationReport, UpdateStats
    from palaestra.training.state import TrainingState

RECORDED = ("actions", "log_probs", "values", "next_values", "rewards")
MEMORY_DISTANCE = 1e-5  # of what both remember, after a rollout


class Learned(NamedTuple):
    gradient: float  # distances
    movement: float  # of all weights since the beginning
    ours: UpdateStats
    theirs: UpdateStats
    rollout: Rollout  # the last one


def distance(ours: Tensor, theirs: Tensor) -> float:
    """Relative, of all numbers as one vector."""
    return float((ours.double() - theirs.double()).norm() / theirs.double().norm())


def play(state: TrainingState) -> Rollout:
    """One by the native engine, copied, with the memory before each stretch that torch has there."""
    engine, tape = _native(state), state.tape
    memory = {name: part.clone() for name, part in state.memory.items()}
    engine._play(state)
    starts = torch.from_numpy(tape.starts.copy())
    observations = copy.deepcopy(tape.observations)
    kept = []
    for first in range(0, tape.horizon, state.stretch) if memory else ():
        kept.append(memory)
        steps = slice(first, first + state.stretch)
        with torch.no_grad():
            memory = state.agent(_part(observations, steps), memory, starts[:-1][steps]).memory
    for name, part in memory.items():
        if not distance(state.memory[name], part) < MEMORY_DISTANCE:  # nor is NaN near
            raise RunFailed(f"The engines remember different things in '{name}'.")
    return Rollout(
        observations=observations,
        ended=starts[1:],
        starts=starts[:-1],
        memory={name: torch.stack([each[name] for each in kept]) for name in memory},
        **{name: torch.from_numpy(engine.recording[name].copy()) for name in RECORDED},
    )


def learn_by_both(settings: TrainConfig, updates: int = 1, group: Group = ALONE) -> Learned:
    """Both begin alike and learn from the same rollouts, in the same order; with others, on every rank."""
    native, by_torch = new_training_state(settings, group), new_training_state(settings, group)
    engine = _native(native)
    if native.memory:  # the rollout to learn from begins with one
        engine._play(native)
        native.tape.rewind()
    begun = native.optimizer.flat.clone()
    for _ in range(updates):
        rollout = play(native)
        by_torch.shuffler = copy.deepcopy(native.shuffler)
        ours = engine._learn(native)
        theirs = learn_by_torch(by_torch, rollout, torch.from_numpy(engine.recording["advantages"].copy()))
        by_torch.agent.take_in(rollout.observations, group.stack)
        native.iteration += 1
    movement = distance(native.optimizer.flat - begun, by_torch.optimizer.flat - begun)
    return Learned(distance(native.optimizer.grad, by_torch.optimizer.grad), movement, ours, theirs, rollout)


def learn_by_torch(state: TrainingState, rollout: Rollout, advantages: Tensor) -> UpdateStats:
    return update(
        state.agent,
        state.optimizer,
        rollout,
        advantages,
        state.config.ppo,
        0.0,
        state.shuffler,
        stretch=state.stretch,
        group=state.group,
    )


def run_on(state: TrainingState, iterations: int) -> list[IterationReport]:
    return [report for _, report in zip(range(iterations), train(state), strict=False)]


def facts(reports: Iterable[IterationReport]) -> list[tuple[Any, ...]]:
    """What must be reproducible: everything but times."""
    return [(report.update, report.episodes, report.metrics) for report in reports]


def weights(state: TrainingState) -> bytes:
    return state.optimizer.flat.numpy().tobytes()


def _native(state: TrainingState) -> NativeEngine:
    if not isinstance(state.engine, NativeEngine):
        raise RunFailed(f"This is the engine '{state.engine.name}'.")
    return state.engine


def _part(observations: Any, steps: slice) -> Any:
    if isinstance(observations, dict):
        return {name: part[steps] for name, part in observations.items()}
    return observations[steps]
