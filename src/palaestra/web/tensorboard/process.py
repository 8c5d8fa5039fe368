"""The TensorBoard process for the chosen runs."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from palaestra.core.child_process import end_process, last_line
from palaestra.core.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

START_SECONDS = 60.0
POLL_SECONDS = 0.05
END_SECONDS = 2.0
SOCKET, LOGS, OUTPUT = "s", "logs", "output"
MAX_ADDRESS_BYTES = 100  # bytes of a socket's path; the kernel's limit is 107


@dataclass
class TensorBoardProcess:
    """A running TensorBoard, created by `start_tensorboard`."""

    key: str  # random part of its URL path
    runs: frozenset[str]
    work_directory: Path
    process: subprocess.Popen[bytes]
    used_at: float = field(default_factory=time.monotonic)

    @property
    def prefix(self) -> str:
        return f"/tensorboard/{self.key}"

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def idle_seconds(self) -> float:
        return time.monotonic() - self.used_at

    def connect(self) -> socket.socket:
        """Opens a connection. Raises OSError if it does not listen."""
        self.used_at = time.monotonic()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            with _short_address(self.work_directory) as address:
                connection.connect(address)
        except OSError:
            connection.close()
            raise
        return connection

    def stop(self) -> None:
        """Stops it and removes its files."""
        end_process(self.process, END_SECONDS)
        shutil.rmtree(self.work_directory, ignore_errors=True)


def start_tensorboard(directory: Path, runs: Sequence[tuple[str, RunDirectory]]) -> TensorBoardProcess:
    """Starts TensorBoard and waits until it responds. `runs`: displayed name and directory. Raises RunFailed."""
    key = secrets.token_urlsafe(24)
    work_directory = directory / key
    _link_logs(work_directory, runs)
    with (work_directory / OUTPUT).open("wb") as output, _short_address(work_directory) as address:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "palaestra.web.tensorboard.child"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3"},
            start_new_session=True,  # Ctrl-C must reach the daemon only
            pass_fds=_descriptors(address),
        )
        started = TensorBoardProcess(key, frozenset(directory.id for _, directory in runs), work_directory, process)
        try:
            _send_settings(process, {"socket": address, "logs": str(work_directory / LOGS), "prefix": started.prefix})
            _wait_until_ready(started)
        except BaseException:
            started.stop()
            raise
    return started


def clear(directory: Path) -> None:
    """Removes the files of a killed daemon; its TensorBoard ended with it."""
    shutil.rmtree(directory, ignore_errors=True)


def _link_logs(work_directory: Path, runs: Sequence[tuple[str, RunDirectory]]) -> None:
    """Creates links to the logs of the chosen runs, with their names."""
    logs = work_directory / LOGS
    work_directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    work_directory.mkdir(mode=0o700)
    logs.mkdir(mode=0o700)
    for name, directory in runs:
        (logs / name).symlink_to(directory.tensorboard)
        if directory.tensorboard_eval.is_dir() and any(directory.tensorboard_eval.iterdir()):
            (logs / f"{name} (Eval)").symlink_to(directory.tensorboard_eval)


def _send_settings(process: subprocess.Popen[bytes], settings: dict[str, str]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended; _wait_until_ready reports why
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        process.stdin.flush()


def _wait_until_ready(started: TensorBoardProcess) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and started.is_alive:
        try:
            started.connect().close()
            return
        except OSError:
            time.sleep(POLL_SECONDS)
    reason = last_line((started.work_directory / OUTPUT).read_bytes())
    raise RunFailed(f"TensorBoard did not start: {reason}.", "Is it installed completely?")


@contextlib.contextmanager
def _short_address(work_directory: Path) -> Iterator[str]:
    """Yields the path of its socket, through a descriptor if it is too long for a socket."""
    path = str(work_directory / SOCKET)
    if len(os.fsencode(path)) <= MAX_ADDRESS_BYTES:
        yield path
        return
    descriptor = os.open(work_directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def _descriptors(address: str) -> tuple[int, ...]:
    """Returns the descriptor in the address, if any."""
    return (int(address.split("/")[4]),) if address.startswith("/proc/self/fd/") else ()
