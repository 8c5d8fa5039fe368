"""One running worker as a daemon holds it: a handle on its keeper that tells when it ends."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from palaestra.daemon.keeping import ask_to_kill, ask_to_stop, is_kept, read_note, still_there
from palaestra.daemon.tree import Process, find_members, find_process, kill_members, send

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.daemon.keeping import Note
    from palaestra.runs.directory import RunDirectory

KILL_SECONDS = 2.0
SIGTERM, SIGKILL = 15, 9


class Kept:
    """Watched through a pidfd, so that it makes no difference whether the keeper is our child or was adopted."""

    def __init__(self, directory: RunDirectory, attempt: int, child: int | None = None) -> None:
        self.directory = directory
        self.attempt = attempt
        self.has_keeper = True
        self.is_stopping = False
        self.kill_at = float("inf")  # monotonic seconds; when our own patience ends
        self.heard_at = 0.0
        self.command: list[str] = []
        self._sounds: list[int] = []
        self.is_told = child is None  # that its worker was started; an adopted one was told of before
        self.handle: int | None = None  # a pidfd
        self._process = find_process(child) if child is not None else None
        self._open()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def note(self) -> Note | None:
        found = read_note(self.directory)
        return found if found is not None and found.attempt == self.attempt else None

    def identify(self) -> bool:
        """Find out which process it is, for a keeper that was only just being started when its daemon died."""
        if self.handle is None and (note := self.note()) is not None:
            self._process = note.keeper
            self._open()
        return self.handle is not None

    def watch_worker(self, worker: Process) -> None:
        """The keeper is gone: from now on the worker itself is watched."""
        self.close()
        self.has_keeper = False
        self._process = worker
        self._open()

    def has_ended(self) -> bool:
        if self._process is None:
            return not is_kept(self.directory)
        return not still_there(self._process)

    def has_made_a_sound(self) -> bool:
        """Since it was last asked: another status, or something printed."""
        before = self._sounds
        self._sounds = [_changed_at(self.directory.status_file), _changed_at(self.directory.output_file())]
        return self._sounds != before

    def ask(self) -> None:
        """Gently."""
        self.is_stopping = True
        if self._process is None:
            return
        if self.has_keeper:
            ask_to_stop(self._process)
        else:
            send(self._process, SIGTERM)

    def kill(self) -> None:
        """Now, by its keeper; without one by ourselves."""
        if self._process is None:
            return
        if self.has_keeper:
            ask_to_kill(self._process)
        else:
            self.kill_tree()

    def kill_tree(self) -> int:
        """Whoever belongs to the run, the keeper too; how many are left."""
        keeper = self._process if self.has_keeper else None
        left = kill_members(lambda: find_members(self.directory.id, keeper.pid if keeper else None), KILL_SECONDS)
        if self._process is not None:  # a worker in the middle of an exec carries no environment for an instant
            send(self._process, SIGKILL)
        return left

    def close(self) -> None:
        """No zombie stays behind, if it was a child of ours."""
        if self.handle is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self.handle, os.WEXITED | os.WNOHANG)
            os.close(self.handle)
            self.handle = None

    def _open(self) -> None:
        """No handle when it is gone already; `has_ended` says so."""
        if self._process is None:
            return
        try:
            handle = os.pidfd_open(self._process.pid)
        except OSError:
            return
        if still_there(self._process):
            self.handle = handle
        else:
            os.close(handle)


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
