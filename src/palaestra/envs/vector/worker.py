"""A process that steps a share of the environments: `python -m palaestra.envs.vector.worker`.

It handles one message after the other, and ends with the process that started it.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.config.env import CurriculumConfig, EnvConfig
from palaestra.core.child_process import die_with_parent
from palaestra.core.errors import PalaestraError
from palaestra.core.spaces import encode_interface
from palaestra.core.tracebacks import shorten_traceback
from palaestra.envs.frame_sources import EnvsSource
from palaestra.envs.tasks import make_task_env
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.envs.vector.messages import NOWHERE, Kind, Line, LineClosed
from palaestra.envs.vector.shared_memory import Field, lay_out

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium
    from numpy.typing import NDArray

    from palaestra.envs.tasks import TaskSource
    from palaestra.envs.vector.in_process import Arrays

SEED_BITS = 32  # of NumPy's and Python's own generators


class RemoteTaskSource:
    """A `TaskSource` that asks the one in the training process."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._ended: float | None = None  # return of the episode that ended before the next request

    def next_options(self, env_index: int) -> dict[str, Any]:
        self._line.send(Kind.TASK, {"env_index": env_index, "ended": self._ended})
        self._ended = None
        options: dict[str, Any] = self._line.receive().content
        return options

    def ended(self, env_index: int, total_reward: float) -> None:
        del env_index
        self._ended = total_reward


class WorkerShare(InProcessEnvs):
    """Environments of one worker process. Before every step and reset it marks which environment is stepped."""

    def __init__(
        self, make: Callable[[], gymnasium.Env[Any, Any]], count: int, tasks: TaskSource | None, first_index: int
    ) -> None:
        super().__init__(make, count, tasks, first_index)
        self.mark: NDArray[np.int64] = np.full(2, NOWHERE)  # [2]: environment, step of its episode
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


class WorkerRenderer:
    """Renders environments of one worker. A failure is returned, and the worker continues."""

    def __init__(self, share: WorkerShare) -> None:
        self._share = share
        self._source = EnvsSource(share)

    def render(self, env_index: int) -> dict[str, Any]:
        tile = env_index - self._share.first_index
        try:
            view = self._source.view(tile)
        except Exception as error:  # noqa: BLE001  rendering may raise anything, and training must continue
            return {"failure": f"{type(error).__name__}: {error}"}
        return {"image": view.content, "total_reward": view.numbers.total_reward, "length": view.numbers.length}


class Worker:
    def __init__(self, line: Line, memory: int, start: dict[str, Any]) -> None:
        env = EnvConfig.model_validate(start["env"])
        curriculum = CurriculumConfig.model_validate(start["curriculum"])
        tasks = RemoteTaskSource(line) if start["has_tasks"] else None
        self.share = WorkerShare(lambda: make_task_env(env, curriculum), start["count"], tasks, start["first_index"])
        self._renderer = WorkerRenderer(self.share)
        self._memory = memory
        self._rows = slice(start["first_index"], start["first_index"] + start["count"])
        self._number = start["number"]
        self._actions = self._rewards = np.empty(0)
        self._out: Arrays = np.empty(0)

    def do(self, kind: Kind, content: Any) -> Any:
        match kind:
            case Kind.STEP:
                return self._step()
            case Kind.LAYOUT:
                return self._lay_out(content)
            case Kind.RESET:
                return self._reset(content)
            case Kind.CAPTURE:
                return {"state": self.share.capture()}
            case Kind.RESTORE:
                return self.share.restore(content)
            case Kind.RENDER:
                return self._renderer.render(content)
            case _:
                raise ValueError(f"a worker has no message {kind!r}")

    def _step(self) -> Any:
        result = self.share.step(self._actions, self._out)
        self._rewards[:] = result.rewards
        self.share.mark[0] = NOWHERE
        if not result.endings:
            return None
        return [
            {
                "env_index": ending.env_index,
                "final_observation": ending.final_observation,
                "total_reward": ending.episode.total_reward,
                "length": ending.episode.length,
                "terminated": ending.episode.terminated,
                "extras": ending.episode.extras,
            }
            for ending in result.endings
        ]

    def _reset(self, seeds: list[int]) -> None:
        """Also seeds the global generators, from which an environment may draw although it should not."""
        random.seed(seeds[0])
        np.random.seed(seeds[0] % 2**SEED_BITS)
        self.share.reset(seeds, self._out)
        self.share.mark[0] = NOWHERE

    def _lay_out(self, content: dict[str, Any]) -> None:
        fields = [Field(name, dtype, tuple(shape)) for name, dtype, shape in content["fields"]]
        arrays = lay_out(self._memory, fields)
        self._actions = arrays.pop("actions")[self._rows]
        self._rewards = arrays.pop("rewards")[self._rows]
        self.share.mark = arrays.pop("marks")[self._number, :2]
        observations = {name.removeprefix("observations."): part[self._rows] for name, part in arrays.items()}
        self._out = observations if content["has_parts"] else observations[""]


def main(arguments: list[str]) -> int:
    connection, memory, parent = (int(word) for word in arguments)
    line = Line(socket.socket(fileno=connection))
    _end_with_the_caller(line, parent)
    # Both are for the training process: it ends its update, saves, and then closes this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        return _serve(line, memory)
    except LineClosed:
        return 1
    except Exception as error:
        _send_failure(line, error)
        raise SystemExit(1) from error


def _serve(line: Line, memory: int) -> int:
    worker = Worker(line, memory, line.receive().content)
    line.send(Kind.DONE, encode_interface(worker.share.interface))
    while (message := line.receive()).kind is not Kind.CLOSE:
        line.send(Kind.DONE, worker.do(message.kind, message.content))
    worker.share.close()
    return 0


def _send_failure(line: Line, error: Exception) -> None:
    if isinstance(error, PalaestraError):
        message, hint, user_traceback = error.message, error.hint, error.user_traceback
    else:
        message, hint, user_traceback = f"{type(error).__name__}: {error}.", "", shorten_traceback(error)
    line.send(
        Kind.FAILED,
        {
            "message": message,
            "hint": hint,
            "user_traceback": user_traceback,
            "traceback": "".join(traceback.format_exception(error)),
        },
    )


def _end_with_the_caller(line: Line, parent: int) -> None:
    """At once, also in the middle of a step. `parent` is 0 when a thread started us that may end before its process."""
    if parent:
        with suppress(OSError):  # forbidden in some containers; the closed connection ends the worker, too
            die_with_parent(parent)
    waiting = select.poll()
    waiting.register(line.fileno(), 0)  # only the end of the line wakes us, no message does

    def watch() -> None:
        waiting.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
