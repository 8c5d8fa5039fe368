"""Finds the environment that a thread is stepping from the thread's stack, at no cost to the steps themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.envs.vector.batch import BatchEnvs
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.envs.vector.mujoco_batch import MujocoEnvs
from palaestra.envs.vector.workers import WorkerEnvs

if TYPE_CHECKING:
    from types import FrameType

SINGLE = {InProcessEnvs.step.__code__, InProcessEnvs.reset.__code__}
BATCHES = {function.__code__ for kind in (BatchEnvs, MujocoEnvs) for function in (kind.step, kind.reset)} | {
    BatchEnvs.land.__code__
}
WORKERS = {WorkerEnvs.step.__code__, WorkerEnvs.reset.__code__}


@dataclass(frozen=True)
class StepInProgress:
    frame: FrameType  # of `step` or `reset`; the same one as long as the call lasts
    index: int | None  # of the environment within the call; None: all at once
    where: str  # "environment 3 (seed 5), at step 2 of its episode, with action 1"
    is_elsewhere: bool = False  # in worker processes, which have their own timeout (env.worker_timeout)

    def is_same_as(self, other: StepInProgress | None) -> bool:
        return other is not None and self.frame is other.frame and self.index == other.index


def find_step(frame: FrameType | None) -> StepInProgress | None:
    """The innermost step or reset on the stack that ends with `frame`; None without one."""
    while frame is not None:
        code = frame.f_code
        if code in SINGLE:
            return _single(frame)
        if code in BATCHES:
            return StepInProgress(frame, None, "the batch of all environments")
        if code in WORKERS:
            return StepInProgress(frame, None, "the worker processes", is_elsewhere=True)
        frame = frame.f_back
    return None


def _single(frame: FrameType) -> StepInProgress:
    known: dict[str, Any] = frame.f_locals
    index, envs = known.get("index"), known["self"]
    if index is None:
        return StepInProgress(frame, None, "the first environment")
    return StepInProgress(frame, index, envs.describe_position(index, known.get("action")))
