"""Child processes: how they are started, exchange lines with this process, and end with it.

Standard library only. `palaestra.rendering` and `apps/scripts/launcher` run in interpreters that do not have this
package, and keep the few lines that they need.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PR_SET_PDEATHSIG = 1
STANDARD_ERROR = 2
READ_BYTES = 1 << 20
MAX_REASON = 300  # characters of a child's last line that an error message shows


def module_command(module: str, *arguments: object) -> list[str]:
    """`python -m module arguments`, in this interpreter."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def import_path() -> str:
    """PYTHONPATH for a child that must import the modules that this process imports."""
    return os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)


def parent_to_follow() -> int:
    """The pid for a child's `die_with_parent`; 0 where the thread that starts the child may end before it."""
    return os.getpid() if threading.current_thread() is threading.main_thread() else 0


def start_module(module: str, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    """`python -m module DESCRIPTOR... PARENT`, with no input and its output on standard error.

    A new interpreter, not a fork: threads and locks of torch do not survive one. PARENT is for `die_with_parent`.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *map(str, descriptors), str(parent_to_follow())],
        stdin=subprocess.DEVNULL,
        stdout=STANDARD_ERROR,  # what it prints must not get between what `--json` prints
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": import_path()},
        pass_fds=descriptors,
    )


def die_with_parent(parent_pid: int | None = None) -> None:
    """The kernel kills this process when its parent ends; at once if the parent is no longer `parent_pid`.

    To the kernel the parent is the thread that started this process, so that thread must live as long as the child is
    needed. Linux only; elsewhere nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if parent_pid is not None and os.getppid() != parent_pid:  # it ended before the call above
        os.kill(os.getpid(), signal.SIGKILL)


def signal_name(number: int) -> str:
    """`SIGKILL`; real-time signals have no name."""
    return next((each.name for each in signal.Signals if each == number), f"signal {number}")


def describe_exit(code: int | None) -> str:
    """`was ended by SIGKILL`, `ended with exit code 3`, or, for None, `stopped answering`."""
    if code is None:
        return "stopped answering"
    return f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


def last_line(output: bytes, otherwise: str = "it printed nothing") -> str:
    """The last line of what a child printed, for an error message."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:MAX_REASON] if lines else otherwise


def wait_for_exit(process: subprocess.Popen[Any], seconds: float) -> int | None:
    """The exit code; None when the process still runs after `seconds`."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode


def end_process(process: subprocess.Popen[Any], grace_seconds: float = 0.0) -> None:
    """Closes the child's standard input, which asks it to end; kills it after `grace_seconds`."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):  # what it did not read is of no use any more
            process.stdin.close()
    if grace_seconds:
        wait_for_exit(process, grace_seconds)
    process.kill()
    process.wait()


def kill_group(process: subprocess.Popen[Any], grace_seconds: float) -> None:
    """Ends a child that leads a process group, with all of the group: SIGTERM, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        wait_for_exit(process, grace_seconds)


class LineReader:
    """Whole lines from a descriptor that does not block; the beginning of a line is kept for the next call."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self._rest = b""

    def read(self) -> list[bytes]:
        """The lines that have come, without waiting. EOFError when the other end is closed and all was read."""
        lines: list[bytes] = []
        while True:
            try:
                data = os.read(self.descriptor, READ_BYTES)
            except BlockingIOError:
                return lines
            if not data:
                if lines:
                    return lines  # the next call raises
                raise EOFError
            *whole, self._rest = (self._rest + data).split(b"\n")
            lines += whole

    def wait(self, seconds: float) -> bool:
        """Whether something can be read before `seconds` are over."""
        poll = select.poll()  # select refuses descriptors from 1024 on
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(1000 * seconds))


class LineChild:
    """A child that takes lines on its standard input and answers through a pipe of its own, not by printing.

    The descriptor of that pipe is the child's last argument, or the variable `pipe_variable`. Ctrl-C in a terminal
    does not reach the child: it leads a process group, or with `own_session` a session. With `can_wait` false, `send`
    keeps what the pipe does not take until the next call.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        variables: Mapping[str, str] | None = None,
        output: IO[bytes] | int | None = STANDARD_ERROR,
        errors: IO[bytes] | int | None = None,
        folder: Path | str | None = None,
        descriptors: Sequence[int] = (),
        pipe_variable: str = "",
        own_session: bool = False,
        can_wait: bool = True,
    ) -> None:
        """`variables`: the whole environment. `output` and `errors`: where standard output and error go."""
        answers, theirs = os.pipe()
        own = dict(os.environ if variables is None else variables)
        if pipe_variable:
            own[pipe_variable] = str(theirs)
        try:
            self.process = subprocess.Popen(
                [*command, *([] if pipe_variable else [str(theirs)])],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                env=own,
                cwd=folder,
                pass_fds=(theirs, *descriptors),
                start_new_session=own_session,
                process_group=None if own_session else 0,
            )
        except BaseException:
            os.close(answers)
            raise
        finally:
            os.close(theirs)
        assert self.process.stdin is not None, "asked for as a pipe"
        self._input = self.process.stdin.fileno()
        os.set_blocking(self._input, can_wait)
        self._unsent = b""
        self._reader: LineReader | None = LineReader(answers)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def descriptor(self) -> int:
        """The descriptor to select on."""
        assert self._reader is not None, "not after `end`"
        return self._reader.descriptor

    @property
    def is_closed(self) -> bool:
        return self._reader is None

    def send(self, message: Any) -> None:
        """Sends a line of JSON. Ignored by a child that has ended; `receive` reports its end."""
        self.send_line(json.dumps(message))

    def send_line(self, line: str) -> None:
        self._unsent += line.encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        if self.process.stdin is None or self.process.stdin.closed:
            self._unsent = b""
        while self._unsent:
            try:
                self._unsent = self._unsent[os.write(self._input, self._unsent) :]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self._unsent = b""

    def close_input(self) -> None:
        assert self.process.stdin is not None, "asked for as a pipe"
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def receive(self) -> list[Any]:
        """The messages that have come, without waiting. EOFError when no more will come."""
        return [json.loads(line) for line in self.receive_lines()]

    def receive_lines(self) -> list[bytes]:
        assert self._reader is not None, "not after `end`"
        self.flush()
        return self._reader.read()

    def wait(self, seconds: float) -> bool:
        """Whether `receive` has something to give, or to raise, before `seconds` are over."""
        assert self._reader is not None, "not after `end`"
        return self._reader.wait(seconds)

    def describe_exit(self, seconds: float) -> str:
        """How the child ended, once its answers have ended; it gets `seconds` to be gone."""
        return describe_exit(wait_for_exit(self.process, seconds))

    def end(self, grace_seconds: float = 0.0) -> None:
        """Closes the child's input and kills it after `grace_seconds`. Nothing can be sent or received afterwards."""
        if self._reader is None:
            return
        end_process(self.process, grace_seconds)
        os.close(self._reader.descriptor)
        self._reader = None
