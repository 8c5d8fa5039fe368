"""How another process of the group on this machine ended: gloo only says that a connection was closed.

The kernel tells at once when a process ends. By what signal or with what code can be read only until its parent has
asked for it, so a thread waits for the end and reads it then.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
UNKNOWN_END = "ended without a word"


def describe_process() -> str:
    """This process, as others of the same machine can find it: machine, then pid. Empty where that is not known.

    Containers of one host that see other processes or other networks count as machines of their own.
    """
    try:
        spaces = [str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("pid", "net")]
        return f"{BOOT_ID.read_text().strip()}/{'/'.join(spaces)} {os.getpid()}"
    except OSError:
        return ""


def machine_of(process: str) -> str:
    """Of `describe_process`; equal for processes of one machine, empty where that is not known."""
    return process.rpartition(" ")[0]


class PeerWatch:
    def __init__(self, processes: Mapping[int, str], on_end: Callable[[int, str], None]) -> None:
        """`processes`: by rank, as `describe_process` gave them; those of other machines are not watched.

        `on_end` is called by a thread of ours with the rank and "was ended by SIGKILL".
        """
        self._on_end = on_end
        self._first: tuple[int, str] | None = None
        self._has_ended = threading.Event()
        self._ranks = self._open(processes)  # by descriptor
        self._pids = {rank: int(about.rpartition(" ")[2]) for rank, about in processes.items() if about}
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._wait, name="palaestra-peers", daemon=True)
        self._thread.start()

    def first_end(self, within: float) -> tuple[int, str] | None:
        """The rank that ended first and how; waits for up to `within` seconds. None: all that are known live."""
        if self._ranks:
            self._has_ended.wait(within)
        return self._first

    def close(self) -> None:
        os.write(self._wake, b"!")
        self._thread.join()
        for descriptor in (*self._ranks, self._woken, self._wake):
            os.close(descriptor)
        self._ranks = {}

    def _open(self, processes: Mapping[int, str]) -> dict[int, int]:
        here = describe_process().rpartition(" ")[0]
        found: dict[int, int] = {}
        for rank, about in processes.items():
            machine, _, pid = about.rpartition(" ")
            if here and machine == here and int(pid) != os.getpid():
                with suppress(OSError, AttributeError):  # gone already, forbidden, or not Linux
                    found[os.pidfd_open(int(pid))] = rank
        return found

    def _wait(self) -> None:
        waiting = select.poll()
        for descriptor in (*self._ranks, self._woken):
            waiting.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in waiting.poll():
                if descriptor == self._woken:
                    return
                waiting.unregister(descriptor)
                self._note(self._ranks[descriptor])

    def _note(self, rank: int) -> None:
        how = read_end(self._pids[rank])
        if self._first is None:
            self._first = (rank, how)
            self._has_ended.set()
        self._on_end(rank, how)


def read_end(pid: int) -> str:
    """How a process ended that its parent has not waited for yet."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return UNKNOWN_END
    if fields[0] not in {"Z", "X"}:  # another process has the pid by now
        return UNKNOWN_END
    code = os.waitstatus_to_exitcode(int(fields[-1]))
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code} and without a word"
