"""Worlds of a native batch, stepped inside the engine through the door that the batch offers (native/batch_door.h).

The worlds stay where they are, so there is nothing to take over or to hand back. The engine plays until an episode
ends; how the next one begins is decided where it always is, in `BatchEnvs`. That is one call for a rollout, and one
more for each step in which something ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.spaces import DiscreteSpec, MultiDiscreteSpec
from palaestra.envs.batch import OffersDoor
from palaestra.envs.publish import PublishedEnvs
from palaestra.training.engines.codes import Unfit

if TYPE_CHECKING:
    from types import ModuleType

    from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
    from palaestra.core.spaces import SpaceSpec
    from palaestra.envs.batch import BatchEnvs
    from palaestra.envs.vector import VectorEnvs
    from palaestra.training.engines.landings import Landings


class BatchWorlds:
    def __init__(self, envs: BatchEnvs, tape: RolloutBuffer, compiled: ModuleType, learner: Any) -> None:
        """Unfit where there is no door; a door that does not fit what it leads to is refused."""
        batch = envs.batch
        door = batch.engine_door() if isinstance(batch, OffersDoor) else None
        kind = type(batch).__name__
        if door is None:
            raise Unfit(f"a batch of class {kind} that offers no engine_door")
        if not _counts_from_zero(envs.interface.action_space):
            raise Unfit("actions of a batch that are not choices counted from 0")
        self._envs = envs
        self._tape = tape
        try:
            self._play = compiled.BatchPlay(door, learner, tape.blocks)
        except ValueError as error:
            raise UsageError(
                f"The engine_door of {kind} does not fit: {error}.",
                "Build it with native/batch_door.h of this version; without a door (None) Python steps these worlds.",
            ) from error

    def play(self, envs: VectorEnvs, landings: Landings) -> None:
        """One tape full. `envs`: as the run has them, with whoever watches."""
        self._play.begin()
        while (stop := self._go_on())[1]:
            step, worlds = stop
            landings.note(step, self._envs.land(worlds, self._tape.rows[step + 1]))
        if isinstance(envs, PublishedEnvs):
            envs.played(self._tape.horizon, len(landings.episodes), self._tape.rewards[-1])

    def _go_on(self) -> tuple[int, list[int]]:
        try:
            stop: tuple[int, list[int]] = self._play.go_on()
        except RuntimeError as error:
            raise RunFailed(f"The batch of {self._envs.batch.world_count} worlds failed: {error}.") from error
        return stop


def is_watched(envs: VectorEnvs) -> bool:
    """Then every step is looked at, so Python takes each of them."""
    return isinstance(envs, PublishedEnvs) and envs.is_watched


def _counts_from_zero(space: SpaceSpec) -> bool:
    match space:
        case DiscreteSpec():
            return space.start == 0
        case MultiDiscreteSpec():
            return not any(space.starts or ())
        case _:
            return False
