"""Metrics logger for Weights & Biases.

The W&B client can raise, hang or exit inside the training loop, so it runs in a separate process
(`process.py`). What is sent goes through a socket that never blocks: when it is full, a message is dropped and
counted. The worst case for a run is one warning. Samples are sent four times a second.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import time
from collections import deque
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from palaestra.core.child_process import kill_group, module_command
from palaestra.core.errors import MissingExtra, RunFailed
from palaestra.loggers.wandb.batch import pack_messages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from palaestra.config.loggers import WandbConfig
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.metrics_logger import Sample
    from palaestra.runs.directory import RunDirectory

SEND_INTERVAL_SECONDS = 0.25  # between two handings over of what was written
BUFFER_BYTES = 1 << 20  # requested; the kernel may grant less
TERMINATE_SECONDS = 0.5  # between a polite signal and the last one
BACKLOG_MESSAGES = 500  # a minute or two of a fast run, some 20 MB; W&B needs seconds to start
FULL = {errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM}


def wandb_is_installed() -> bool:
    """A directory `wandb/` that W&B itself once left in the working directory is not the package."""
    spec = find_spec("wandb")
    return spec is not None and spec.origin is not None


class WandbLogger:
    name = "wandb"

    def __init__(self, config: WandbConfig, run: RunDirectory, run_name: str, settings: Mapping[str, Any]) -> None:
        if not wandb_is_installed():
            raise MissingExtra("Weights & Biases", "wandb")
        self._grace_seconds = config.grace_seconds
        self._log_file = run.logs / "wandb.log"
        self._log_file.parent.mkdir(parents=True, exist_ok=True)
        self._dropped_count = 0
        self._written: list[Sample] = []
        self._is_due_at = 0.0  # by the monotonic clock
        self._backlog: deque[bytes] = deque()
        self._is_open = True
        self._failure: RunFailed | None = None
        self._socket, self._process = self._start()
        self._send(
            {
                "kind": "start",
                "id": run.id,
                "name": run_name,
                "directory": str(run.path),
                "memory": str(run.logs / "wandb"),
                "settings": dict(settings),
                **config.model_dump(mode="json"),
            }
        )

    @property
    def dropped_count(self) -> int:
        """Messages that W&B was too slow to take."""
        return self._dropped_count

    def write(self, sample: Sample) -> None:
        self._written.append(sample)
        if time.monotonic() >= self._is_due_at:
            self._send_samples()

    def checkpoint_saved(self, checkpoint: Checkpoint) -> None:
        self._send_samples()
        files = []
        if checkpoint.path is not None:
            directory = checkpoint.path.parent
            files = [str(checkpoint.path), *(str(directory / name) for name in checkpoint.files)]
        self._send(
            {
                "kind": "checkpoint",
                "epoch": checkpoint.epoch,
                "step": checkpoint.agent_step,
                "seconds": checkpoint.total_time,
                "files": files,
            }
        )

    def table_made(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """One message: a table of more than some thousand rows is too large, and counts as dropped."""
        self._send_samples()
        self._send({"kind": "table", "name": name, "columns": list(columns), "rows": [list(row) for row in rows]})

    def files_made(self, name: str, kind: str, files: Sequence[Path]) -> None:
        self._send_samples()
        self._send({"kind": "files", "name": name, "type": kind, "files": [str(file) for file in files]})

    def flush(self) -> None:
        """Nothing to wait for: what W&B keeps is W&B's own affair."""

    def close(self) -> None:
        """Let W&B finish within its grace; then it is ended. Raises when anything was lost."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            if self._failure is None:
                self._send_samples()
                self._finish()
        finally:
            kill_group(self._process, TERMINATE_SECONDS)
            self._socket.close()
        if self._failure is None and self._dropped_count:
            self._failure = RunFailed(
                f"W&B did not keep up: {self._dropped_count} messages were dropped.", self._see_log()
            )
        if self._failure is not None:
            raise self._failure

    def _start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        ours.settimeout(0.0)
        module = "palaestra.loggers.wandb.process"
        with ExitStack() as undo:
            undo.enter_context(ours)
            with theirs, self._log_file.open("ab") as log:
                process = subprocess.Popen(
                    module_command(module, theirs.fileno(), os.getpid()),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C is for the trainer; and the whole group can be ended
                )
            undo.pop_all()
        return ours, process

    def _send_samples(self) -> None:
        self._raise_if_gone()
        written, self._written = self._written, []
        for message in pack_messages(written):
            self._send(message)
        self._is_due_at = time.monotonic() + SEND_INTERVAL_SECONDS

    def _send(self, message: Mapping[str, Any]) -> None:
        """Hand over what the socket takes; the rest waits here, and beyond a limit it is dropped."""
        if len(self._backlog) >= BACKLOG_MESSAGES:
            self._dropped_count += 1
        else:
            self._backlog.append(json.dumps(message, separators=(",", ":")).encode())
        try:
            self._send_backlog()
        except ConnectionError:
            self._raise_if_gone()

    def _send_backlog(self) -> None:
        while self._backlog:
            try:
                self._socket.send(self._backlog[0])
            except OSError as error:
                if error.errno in FULL:
                    return
                if error.errno != errno.EMSGSIZE:
                    raise
                self._dropped_count += 1
            self._backlog.popleft()

    def _raise_if_gone(self) -> None:
        reason = self._last_output()
        if reason is None:
            return
        self._failure = RunFailed(f"W&B is gone: {reason or self._exit()}.", self._see_log())
        raise self._failure

    def _last_output(self) -> str | None:
        """Why W&B gave up; empty when it said nothing; None while it works."""
        try:
            return self._socket.recv(1 << 16).decode(errors="replace")
        except BlockingIOError:
            return None
        except ConnectionError:  # it left without reading all; what it said comes after this error
            try:
                return self._socket.recv(1 << 16).decode(errors="replace")
            except OSError:
                return ""

    def _exit(self) -> str:
        try:
            return f"its process ended with exit code {self._process.wait(timeout=0.2)}"
        except subprocess.TimeoutExpired:
            return "its process closed the connection"

    def _finish(self) -> None:
        deadline = time.monotonic() + self._grace_seconds
        try:
            self._hand_over_until(deadline)
            exit_code = self._process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except (subprocess.TimeoutExpired, TimeoutError):
            self._failure = RunFailed(
                f"W&B did not finish within {self._grace_seconds:g} s and was stopped.", self._see_log()
            )
            return
        except ConnectionError:
            exit_code = 1
        if exit_code:
            reason = self._last_output() or self._exit()
            self._failure = RunFailed(f"W&B failed while finishing: {reason}.", self._see_log())

    def _hand_over_until(self, deadline: float) -> None:
        while self._backlog:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            self._socket.send(self._backlog[0])
            self._backlog.popleft()
        self._socket.settimeout(0.0)
        self._socket.shutdown(socket.SHUT_WR)  # the end of the stream says: that was all

    def _see_log(self) -> str:
        return f"The run goes on without it; see {self._log_file}."
