"""The environments of one worker process, which leaves a mark of where it is for when it can no longer speak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.envs.vector import InProcessEnvs

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium
    from numpy.typing import NDArray

    from palaestra.envs.tasks import TaskSource

NOWHERE = -1


class Share(InProcessEnvs):
    """Steps as all others do; before every step and reset it writes down which environment is meant."""

    def __init__(
        self, make: Callable[[], gymnasium.Env[Any, Any]], count: int, tasks: TaskSource | None, first_index: int
    ) -> None:
        super().__init__(make, count, tasks, first_index)
        self.mark: NDArray[np.int64] = np.full(2, NOWHERE)  # [2]: which environment, and at which step of its episode
        self._steps = [self._marked(index, env.step) for index, env in enumerate(self.envs)]

    def _marked(self, index: int, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        number = self.first_index + index

        def marked_step(action: Any) -> Any:
            mark = self.mark
            mark[0], mark[1] = number, self._lengths[index]
            return step(action)

        return marked_step

    def _begin(self, index: int, seed: int | None = None) -> Any:
        self.mark[:] = self.first_index + index, self._lengths[index]
        return super()._begin(index, seed)
