"""One process that steps environments for us, seen from here: how it is started, asked, missed and ended."""

from __future__ import annotations

import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from palaestra.core.child_process import signal_name, start_module, wait_for_exit
from palaestra.core.errors import RunFailed
from palaestra.envs.vector.messages import NOWHERE, Kind, Line, LineClosed, ReplyTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

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

    def answer(self, on_task: Callable[[int, float | None], dict[str, Any]] | None = None) -> Any:
        """What it says to what it was asked; meanwhile it may ask for tasks."""
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
        """While which environment did what; nobody but this memory can tell by now."""
        if self.mark is None:
            return "while it made its environments"
        index, step = (int(part) for part in self.mark)
        if index == NOWHERE:
            return "between two steps"
        where = f"while environment {index} (seed {self.seeds[index] if self.seeds else None})"
        if not step or self.actions is None:
            return f"{where} began an episode"
        return f"{where} was at step {step} of its episode, with action {self.actions[index].tolist()!r}"
