"""A training process and what started it: it ends with its launcher, reports to it, and posts its refusals.

Light imports only: a launcher that is killed while this process starts must be noticed early.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from palaestra.core import child_process
from palaestra.core.errors import PalaestraError
from palaestra.training.distributed.rank_info import read_rank_info
from palaestra.training.distributed.rendezvous import post_refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.core.child_process import LineChild

LAUNCHER = "PALAESTRA_LAUNCHER_PID"  # variable set by our launcher; torchrun does not give its pid
REPORT_VARIABLE = "PALAESTRA_REPORT_FD"  # the descriptor of the pipe for the exit report
CONNECT_SECONDS = 2.0
MAX_TEXT = 4000  # characters; the launcher reads only after the end, and a pipe holds 64 KiB
FAILED = 1  # exit code; others are refusals
POST_SECONDS = 10.0  # how long a refusal waits for the other ranks to read it


def die_with_launcher() -> None:
    """The kernel kills this process when its launcher, ours or torchrun, ends.

    Call it before any slow import. Where the kernel does not support it, the time-out of the collectives remains.
    """
    launcher = os.environ.get(LAUNCHER)
    child_process.die_with_parent(None if launcher is None else int(launcher))
    if launcher is None and _has_torchrun_ended():
        os.kill(os.getpid(), signal.SIGKILL)


def _has_torchrun_ended() -> bool:
    """torchrun listens before it starts a rank. PyTorch would try for minutes to reach one that was killed."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return False
    try:
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        socket.create_connection(address, CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except (OSError, KeyError, ValueError):  # a slow network, or variables that are refused elsewhere
        return False
    return False


@dataclass(frozen=True)
class ExitReport:
    """What a training process reports before it exits: one line of JSON through a pipe."""

    exit_code: int
    at: float  # seconds of the monotonic clock, which all processes of a machine share
    directory: str = ""  # of the run, when there is an outcome
    error: str = ""  # empty: it ended in order
    hint: str = ""
    user_traceback: str = ""
    is_consequence: bool = False  # another rank failed first


def report_of(error: BaseException, *, is_consequence: bool) -> ExitReport:
    now = time.monotonic()
    if not isinstance(error, PalaestraError):
        text = f"{type(error).__name__}: {error}"
        return ExitReport(1, now, error=text[:MAX_TEXT], is_consequence=is_consequence)
    return ExitReport(
        error.exit_code,
        now,
        error=error.message[:MAX_TEXT],
        hint=error.hint[:MAX_TEXT],
        user_traceback=error.user_traceback,
        is_consequence=is_consequence,
    )


def send_report(report: ExitReport) -> None:
    """To the launcher, which started this process with a pipe for it."""
    os.write(int(os.environ[REPORT_VARIABLE]), json.dumps(asdict(report)).encode() + b"\n")


def receive_report(child: LineChild) -> ExitReport | None:
    """From a process that has ended; None when it was ended before it had reported. The child is closed."""
    try:
        lines = child.receive_lines()
    except EOFError:
        lines = []
    child.end()
    return parse_report(lines[-1]) if lines else None


def parse_report(line: bytes) -> ExitReport | None:
    try:
        return ExitReport(**json.loads(line))
    except (ValueError, TypeError):
        return None


@contextmanager
def refusals_posted() -> Iterator[None]:
    """A rank that is refused before it joins the others reports the reason to them.

    Under torchrun and the like; our own launcher notices by itself that a rank has ended.
    """
    try:
        yield
    except PalaestraError as error:
        if error.exit_code != FAILED and not error.is_posted and LAUNCHER not in os.environ:
            _post_refusal(error)
        raise


def _post_refusal(error: PalaestraError) -> None:
    try:
        place = read_rank_info(os.environ)
    except PalaestraError:  # the variables themselves are what is refused
        return
    if place is not None and place.world_size > 1:
        post_refusal(place, error.message, POST_SECONDS)
