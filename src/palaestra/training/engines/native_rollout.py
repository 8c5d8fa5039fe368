"""Rollouts of the native engine in environments that it does not own: the observations it reads, the episodes that end,
and batches that are stepped through their batch step API (native/batch_step_api.h).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.spaces import DiscreteSpec, MultiDiscreteSpec
from palaestra.envs.vector.batch import step_api_of
from palaestra.envs.vector.published import PublishedEnvs
from palaestra.training.engines.network_plan import Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.spaces import SpaceSpec
    from palaestra.envs.vector.batch import BatchEnvs
    from palaestra.envs.vector.in_process import Ending, VectorEnvs
    from palaestra.training.engines.network_plan import NetworkPlan


class NetworkInputs:
    """The parts of the observation that a network reads, as views of the rollout buffer, each [T + 1, B, …]."""

    def __init__(self, plan: NetworkPlan, buffer: RolloutBuffer) -> None:
        self._vector_part = plan.input_part
        self._code_parts = [table.part for table in plan.tables]
        self._blocks = buffer.blocks
        self.vector: NDArray[Any] = np.empty(0, np.uint8) if plan.input_part is None else buffer.blocks[plan.input_part]
        self.codes: list[NDArray[np.uint8]] = [buffer.blocks[name] for name in self._code_parts]

    def stack(self, observations: Sequence[Any]) -> tuple[NDArray[Any], list[NDArray[np.uint8]]]:
        """Single observations of environments as arrays: the part of slot 0, and that of each table, all [K, …]."""
        vector = np.empty(0, np.uint8) if self._vector_part is None else self._stack(self._vector_part, observations)
        return vector, [self._stack(name, observations) for name in self._code_parts]

    def _stack(self, part: str, observations: Sequence[Any]) -> NDArray[Any]:
        block = self._blocks[part]
        if not observations:
            return block[0, :0]
        rows = [observation[part] if part else observation for observation in observations]
        return np.ascontiguousarray(np.stack(rows), dtype=block.dtype)


class EpisodeEnds:
    """The episodes that end during one rollout, marked in its buffer."""

    def __init__(self, buffer: RolloutBuffer) -> None:
        self._buffer = buffer
        self.episodes: list[EpisodeResult] = []
        self.truncations: list[tuple[int, Ending]] = []  # step and ending: these bootstrap
        buffer.starts[1:] = False
        buffer.terminated[:] = False

    def add(self, step: int, endings: Sequence[Ending]) -> None:
        for ending in endings:
            self._buffer.terminated[step, ending.env_index] = ending.episode.terminated
            self._buffer.starts[step + 1, ending.env_index] = True
            self.episodes.append(ending.episode)
            if not ending.episode.terminated:
                self.truncations.append((step, ending))


class BatchRollout:
    """Rollouts in a native batch, which the engine steps until an episode ends.

    The worlds stay in their batch. `BatchEnvs` handles the ends and the next episodes as always: one call of the engine
    for a rollout, and one more for each step in which episodes end.
    """

    def __init__(self, envs: BatchEnvs, buffer: RolloutBuffer, compiled: ModuleType, learner: Any) -> None:
        """Raises Unsupported without a batch step API, and UsageError for one that does not fit the batch."""
        step_api = step_api_of(envs.batch)
        kind = type(envs.batch).__name__
        if step_api is None:
            raise Unsupported(f"a batch of class {kind} without a batch step API")
        if not _counts_from_zero(envs.interface.action_space):
            raise Unsupported("actions of a batch that are not discrete and counted from 0")
        self._envs = envs
        self._buffer = buffer
        try:
            self._rollout = compiled.BatchRollout(step_api, learner, buffer.blocks)
        except ValueError as error:
            raise UsageError(
                f"Invalid batch step API of {kind}: {error}.",
                "Build it with native/batch_step_api.h of this version, or return None from step_api().",
            ) from error

    def collect(self, envs: VectorEnvs, ends: EpisodeEnds) -> None:
        """Fill the buffer. `envs`: the run's environments, with what publishes their frames."""
        self._rollout.start()
        while (ended := self._run_until_end())[1]:
            step, worlds = ended
            ends.add(step, self._envs.land(worlds, self._buffer.rows[step + 1]))
        if isinstance(envs, PublishedEnvs):
            envs.record_steps(self._buffer.horizon, len(ends.episodes), self._buffer.rewards[-1])

    def _run_until_end(self) -> tuple[int, list[int]]:
        try:
            ended: tuple[int, list[int]] = self._rollout.run_until_end()
        except RuntimeError as error:
            raise RunFailed(f"The batch of {self._envs.batch.world_count} worlds failed: {error}.") from error
        return ended


def is_watched(envs: VectorEnvs) -> bool:
    """Whether a viewer may need the frame of every step: then Python takes each step."""
    return isinstance(envs, PublishedEnvs) and envs.is_watched


def _counts_from_zero(space: SpaceSpec) -> bool:
    match space:
        case DiscreteSpec():
            return space.start == 0
        case MultiDiscreteSpec():
            return not any(space.starts or ())
        case _:
            return False
