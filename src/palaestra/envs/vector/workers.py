"""Environments stepped by worker processes and this process, which steps a share too.

Every process steps its share with the same code, so results do not depend on the number of processes. Actions,
observations and rewards are in shared memory; a few bytes on a socket wake a process and announce the result. Episodes
that ended are sent as a message.
"""

from __future__ import annotations

import os
import signal
import socket
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.child_process import signal_name, start_module, wait_for_exit
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import PalaestraError, RunFailed, UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec, decode_interface
from palaestra.envs.tasks import TaskSwitch, make_task_env
from palaestra.envs.vector.in_process import Ending, InProcessEnvs, VectorStep
from palaestra.envs.vector.messages import NOWHERE, Kind, Line, LineClosed, ReplyTimeout
from palaestra.envs.vector.shared_memory import Field, lay_out, new_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from palaestra.config.env import CurriculumConfig, EnvConfig
    from palaestra.envs.tasks import TaskSource
    from palaestra.envs.vector.in_process import Arrays


END_SECONDS = 3.0  # to close its environments when nothing is wrong
HINTS: dict[int, str] = {
    signal.SIGKILL: "Was the machine out of memory? Fewer environments (ppo.env_count) need less of it.",
    signal.SIGSEGV: "That is a fault in compiled code of the environment; with env.workers=0 it would end the run too.",
}


class InWorker(Exception):
    """The traceback of what was raised in another process, as text"""


class WorkerProcess:
    def __init__(self, start: dict[str, Any], memory: int, timeout: float) -> None:
        """`start`: number, first_index, count, and what to make. `memory`: a descriptor. `timeout` in seconds."""
        self.number: int = start["number"]
        self.rows = slice(start["first_index"], start["first_index"] + start["count"])
        self.mark: NDArray[np.int64] | None = None  # [2], see Share
        self.actions: NDArray[Any] | None = None  # [B, …] of all environments
        self.seeds: Sequence[int | None] = []  # of all environments
        self._timeout = timeout
        ours, theirs = socket.socketpair()
        self._line = Line(ours, timeout)
        with theirs:
            try:
                self._process = start_module("palaestra.envs.vector.worker", (theirs.fileno(), memory))
            except OSError as error:
                ours.close()
                raise RunFailed(f"A worker process cannot be started: {error.strerror}.") from error
        self.ask(Kind.START, start)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, kind: Kind, content: Any = None) -> None:
        try:
            self._line.send(kind, content)
        except LineClosed:
            return  # it is gone; `answer` finds the reason, which it may have sent before
        except ReplyTimeout:
            raise self._reply_timed_out() from None

    def reply(self, on_task: Callable[[int, float | None], dict[str, Any]] | None = None) -> Any:
        """The reply to the last request; meanwhile the worker may request tasks."""
        try:
            while (message := self._line.receive()).kind is Kind.TASK:
                assert on_task is not None
                self._line.send(Kind.OPTIONS, on_task(message.content["env_index"], message.content["ended"]))
        except LineClosed:
            raise self._process_ended() from None
        except ReplyTimeout:
            raise self._reply_timed_out() from None
        if message.kind is Kind.FAILED:
            told = message.content
            failure = RunFailed(told["message"], told["hint"])
            failure.user_traceback = told["user_traceback"]
            raise failure from InWorker(f"\n{told['traceback']}")
        return message.content

    def request_close(self) -> None:
        """It need not listen; `end` ends it in any case."""
        if self._process.returncode is None:
            with suppress(LineClosed, ReplyTimeout):
                self._line.send(Kind.CLOSE)

    def end(self) -> None:
        wait_for_exit(self._process, END_SECONDS)
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._line.close()

    def _process_ended(self) -> RunFailed:
        code = wait_for_exit(self._process, END_SECONDS)  # its line may have closed a moment before it
        self.kill()
        if code is None:
            return RunFailed(f"{self._name()} closed its line {self._where()}.")
        if code < 0:
            return RunFailed(f"{self._name()} was ended by {signal_name(-code)} {self._where()}.", HINTS.get(-code, ""))
        return RunFailed(f"{self._name()} ended with exit code {code} {self._where()}.", "Its output is in the log.")

    def _reply_timed_out(self) -> RunFailed:
        failure = RunFailed(
            f"{self._name()} has not answered for {self._timeout:g} s, {self._where()}.",
            "If its steps may take so long, set env.worker_timeout higher.",
        )
        self.kill()
        return failure

    def _name(self) -> str:
        return f"Worker process {self.number} (pid {self.pid})"

    def _where(self) -> str:
        """Environment, step and action of a worker that ended, from the shared memory."""
        if self.mark is None:
            return "while it made its environments"
        index, step = (int(part) for part in self.mark)
        if index == NOWHERE:
            return "between two steps"
        where = f"while environment {index} (seed {self.seeds[index] if self.seeds else None})"
        if not step or self.actions is None:
            return f"{where} began an episode"
        return f"{where} was at step {step} of its episode, with action {self.actions[index].tolist()!r}"


class WorkerEnvs:
    """A `palaestra.envs.vector.in_process.VectorEnvs`: the first share in this process, each other in its own."""

    def __init__(
        self,
        env: EnvConfig,
        curriculum: CurriculumConfig,
        count: int,
        tasks: TaskSource | None = None,
    ) -> None:
        self.count = count
        self.why_no_batch = ""  # why MuJoCo environments are not stepped as a batch
        self._tasks = tasks
        self._failure: PalaestraError | None = None
        self._arrays: dict[str, np.ndarray] = {}  # in shared memory, once the first rows are known
        self._memory = new_memory()
        self.workers: list[WorkerProcess] = []
        self._ending = weakref.finalize(self, _end, self.workers, self._memory, os.getpid())
        bounds = [count * part // (env.workers + 1) for part in range(env.workers + 2)]
        try:
            for number, first in enumerate(bounds[1:-1]):
                start = _start(env, curriculum, number, first, bounds[number + 2] - first, tasks is not None)
                self.workers.append(WorkerProcess(start, self._memory, env.worker_timeout))
            self.own = InProcessEnvs(lambda: make_task_env(env, curriculum), bounds[1], tasks)
            self.interface: EnvInterface = self.own.interface
            first_env = self.own.envs[0]
            if isinstance(first_env, TaskSwitch):
                first_env.make_all()
            for worker in self.workers:
                self._check_interface(worker, env)
        except BaseException:
            self._ending()
            raise
        self._others = slice(bounds[1], count)

    def _check_interface(self, worker: WorkerProcess, env: EnvConfig) -> None:
        try:
            interface = decode_interface(worker.reply())
        except RunFailed as failure:
            if not isinstance(failure.__cause__, InWorker):  # it failed for another reason
                raise
            raise UsageError(
                f"A worker process cannot make '{env.id}', which this one can: {failure.message}",
                "What only this program registers is unknown elsewhere: name its module, env.id=module:Env-v0; "
                "or set env.workers=0.",
            ) from failure
        if interface != self.interface:
            raise UsageError(f"'{env.id}' has different spaces in a worker process.", "Set env.workers=0.")

    def reset(self, seeds: Sequence[int], out: Arrays) -> None:
        numbers = [int(seed) for seed in seeds]
        with self._fail_together():
            self._share_arrays(out)
            for worker in self.workers:
                worker.seeds = numbers
                worker.ask(Kind.RESET, numbers[worker.rows])
            self.own.reset(numbers[: self.own.count], _rows(out, slice(self.own.count)))
            for worker in self.workers:
                worker.reply(self._next_task)
        self._copy_out(out)

    def step(self, actions: np.ndarray, out: Arrays) -> VectorStep:
        """Take `actions` [B, …]; the observations to act on next are written into `out` [B, …]."""
        with self._fail_together():
            self._share_arrays(out)
            self._arrays["actions"][self._others] = actions[self._others]
            for worker in self.workers:
                worker.ask(Kind.STEP)
            rewards, endings = self.own.step(actions[: self.own.count], _rows(out, slice(self.own.count)))
            for worker in self.workers:  # in the order of their environments, because tasks are rendered in it
                ended = worker.reply(self._next_task)
                if ended:
                    endings += [_ending(one) for one in ended]
        self._copy_out(out)
        return VectorStep([*rewards, *self._arrays["rewards"][self._others].tolist()], endings)

    @contextmanager
    def _fail_together(self) -> Iterator[None]:
        """Ends all workers after a failure, because replies would no longer match requests, and keeps the reason."""
        if self._failure is not None:
            raise self._failure
        if not self._ending.alive:
            raise RunFailed("These environments are closed.")
        try:
            yield
        except BaseException as error:
            self._failure = error if isinstance(error, PalaestraError) else RunFailed(f"Stopped by {error!r}.")
            self._ending()
            raise

    def _next_task(self, env_index: int, ended: float | None) -> dict[str, Any]:
        assert self._tasks is not None
        if ended is not None:
            self._tasks.ended(env_index, ended)
        return self._tasks.next_options(env_index)

    def _share_arrays(self, out: Arrays) -> None:
        """Lays out the shared memory for rows like these, once."""
        if self._arrays:
            return
        parts = out if isinstance(out, dict) else {"": out}
        fields = [
            Field("marks", "<i8", (len(self.workers), 8)),  # a line of memory each, of which two numbers are used
            Field("actions", *_action_rows(self.interface, self.count)),
            Field("rewards", "<f8", (self.count,)),
            *(Field(f"observations.{name}", part.dtype.str, part.shape) for name, part in parts.items()),
        ]
        try:
            self._arrays = lay_out(self._memory, fields)
        except OSError as error:
            raise RunFailed(
                f"The shared memory of the workers cannot be allocated: {error.strerror}.",
                "Fewer environments (ppo.env_count) need less of it; env.workers=0 needs none.",
            ) from error
        layout = {
            "fields": [[field.name, field.dtype, field.shape] for field in fields],
            "has_parts": isinstance(out, dict),
        }
        for worker in self.workers:
            worker.ask(Kind.LAYOUT, layout)
            worker.reply()
            worker.mark = self._arrays["marks"][worker.number, :2]
            worker.actions = self._arrays["actions"]

    def _copy_out(self, out: Arrays) -> None:
        for name, part in (out if isinstance(out, dict) else {"": out}).items():
            part[self._others] = self._arrays[f"observations.{name}"][self._others]

    def render(self, env_index: int) -> dict[str, Any]:
        """The image of an environment in a worker, with return and length of its episode."""
        if self._failure is not None:
            raise self._failure
        [worker] = [worker for worker in self.workers if worker.rows.start <= env_index < worker.rows.stop]
        with self._fail_together():
            worker.ask(Kind.RENDER, env_index)
            rendered: dict[str, Any] = worker.reply()
        if "failure" in rendered:
            raise RunFailed(f"Environment {env_index} cannot be rendered: {rendered['failure']}.")
        return rendered

    def why_inexact(self) -> str:
        return self.own.why_inexact()

    def capture(self) -> dict[str, Any] | None:
        """The same as from `InProcessEnvs`: it can be restored with any number of workers."""
        with self._fail_together():
            for worker in self.workers:
                worker.ask(Kind.CAPTURE)
            states = [self.own.capture(), *(worker.reply()["state"] for worker in self.workers)]
        if any(state is None for state in states):
            return None
        return {name: [part for state in states for part in state[name]] for name in ("envs", "returns", "lengths")}

    def restore(self, state: dict[str, Any]) -> None:
        if len(state["envs"]) != self.count:
            raise ValueError(f"it has {len(state['envs'])} environments, this run {self.count}")
        with self._fail_together():
            for worker in self.workers:
                worker.ask(Kind.RESTORE, {name: part[worker.rows] for name, part in state.items()})
            self.own.restore({name: part[: self.own.count] for name, part in state.items()})
            for worker in self.workers:
                worker.reply()

    def close(self) -> None:
        self.own.close()
        self._ending()


def _start(
    env: EnvConfig, curriculum: CurriculumConfig, number: int, first: int, count: int, has_tasks: bool
) -> dict[str, Any]:
    try:
        described = {"env": env.model_dump(mode="json"), "curriculum": curriculum.model_dump(mode="json")}
    except ValueError as error:
        raise UsageError(
            f"The settings of '{env.id}' cannot be sent to a worker process: {error}.",
            "Use numbers, text, lists and dictionaries, or set env.workers=0.",
        ) from error
    return {
        **described,
        "number": number,
        "first_index": first,
        "count": count,
        "has_tasks": has_tasks,
    }


def _end(workers: list[WorkerProcess], memory: int, owner: int) -> None:
    if os.getpid() != owner:  # a forked child does not own the workers
        return
    for worker in workers:
        worker.request_close()
    while workers:
        workers.pop().end()
    os.close(memory)


def _rows(arrays: Arrays, rows: slice) -> Arrays:
    if isinstance(arrays, dict):
        return {name: part[rows] for name, part in arrays.items()}
    part: np.ndarray = arrays[rows]
    return part


def _action_rows(interface: EnvInterface, count: int) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape of a network's actions for `count` environments."""
    match interface.action_space:
        case BoxSpec(dtype=dtype, size=size):
            return np.dtype(dtype).str, (count, size)
        case MultiDiscreteSpec(counts=counts):
            return "<i8", (count, len(counts))
        case DiscreteSpec():
            return "<i8", (count,)
    raise UsageError("Actions with named parts are not supported.", "Flatten them with a Gymnasium wrapper.")


def _ending(message: dict[str, Any]) -> Ending:
    episode = EpisodeResult(
        seed=None,
        total_reward=message["total_reward"],
        length=message["length"],
        terminated=message["terminated"],
        env_index=message["env_index"],
        extras=message["extras"],
    )
    return Ending(message["env_index"], message["final_observation"], episode)
