"""Vectorised environments that viewers can watch while they are stepped."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from palaestra.envs.vector.in_process import VectorStep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.frame_sources import AnySource
    from palaestra.envs.vector.in_process import Arrays, VectorEnvs
    from palaestra.rendering.live_view import LiveView


class PublishedEnvs:
    """A `palaestra.envs.vector.in_process.VectorEnvs` that forwards to another one and shows it in a live view."""

    def __init__(self, envs: VectorEnvs, source: AnySource, view: LiveView, steps_taken: int, rows: int) -> None:
        """`steps_taken`: of the run so far. `rows`: of one step, over all processes."""
        self.count = envs.count
        self.interface: EnvInterface = envs.interface
        self.inner = envs
        self._step = envs.step
        self._source = source
        self._view = view
        self._steps_taken = steps_taken
        self._rows = rows
        self._steps = 0

    def step(self, actions: np.ndarray, out: Arrays) -> VectorStep:
        result = self._step(actions, out)
        self._count(1, len(result.endings))
        if monotonic() >= self._view.due:
            self._check(result)
        return result

    @property
    def is_watched(self) -> bool:
        return self._view.is_watched

    def record_steps(
        self,
        steps: int,
        endings: int,
        rewards: NDArray[np.float32],
        bring_up_to_date: Callable[[], None] = lambda: None,
    ) -> None:
        """An engine took `steps` steps of each row; the environments here are updated when they are shown.

        `rewards`: of the last step, [B].
        """
        self._count(steps, endings)
        if monotonic() >= self._view.due:
            self._check(VectorStep(rewards, []), bring_up_to_date)

    def _count(self, steps: int, endings: int) -> None:
        self._steps += steps
        self._view.episodes += endings

    def _check(self, last: VectorStep, bring_up_to_date: Callable[[], None] = lambda: None) -> None:
        self._source.last, self._source.env_step = last, self._steps
        self._view.env_steps = self._steps_taken + self._steps * self._rows
        self._view.check(self._source, bring_up_to_date)

    def reset(self, seeds: Sequence[int], out: Arrays) -> None:
        self.inner.reset(seeds, out)

    def why_inexact(self) -> str:
        return self.inner.why_inexact()

    def capture(self) -> dict[str, Any] | None:
        return self.inner.capture()

    def restore(self, state: dict[str, Any]) -> None:
        self.inner.restore(state)

    def close(self) -> None:
        self.inner.close()
