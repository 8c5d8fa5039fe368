"""Which environment a thread is stepping right now, read from its stack: the step itself keeps no account of it.

So whoever asks once a second, or once in the end, costs the steps nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.envs.batch import BatchEnvs
from palaestra.envs.mujoco_batch import MujocoEnvs
from palaestra.envs.vector import InProcessEnvs
from palaestra.envs.workers import WorkerEnvs

if TYPE_CHECKING:
    from types import FrameType

SINGLE = {InProcessEnvs.step.__code__, InProcessEnvs.reset.__code__}
BATCHES = {function.__code__ for kind in (BatchEnvs, MujocoEnvs) for function in (kind.step, kind.reset)} | {
    BatchEnvs.land.__code__
}
WORKERS = {WorkerEnvs.step.__code__, WorkerEnvs.reset.__code__}


@dataclass(frozen=True)
class StepInProgress:
    frame: FrameType  # of our own function; the same one as long as the call lasts
    index: int | None  # of the environment within the call; None: all at once
    where: str  # "environment 3 (seed 5), at step 2 of its episode, with action 1"
    is_elsewhere: bool = False  # in worker processes, whose silence is noticed by itself (env.worker_timeout)

    def is_same_as(self, other: StepInProgress | None) -> bool:
        return other is not None and self.frame is other.frame and self.index == other.index


def find_step(frame: FrameType | None) -> StepInProgress | None:
    """The innermost step or reset of environments on the stack that ends with `frame`; None outside of any."""
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
