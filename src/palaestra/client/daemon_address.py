"""The address of the daemon of a runs directory: `.palaestra/daemon.json`, beside its token."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.runs.files import read_json, write_json
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from pathlib import Path

HOME = ".palaestra"


@dataclass(frozen=True)
class DaemonAddress:
    """URL and process of a running daemon."""

    url: str  # "http://127.0.0.1:7878"
    pid: int
    pid_started_at: float  # identifies the process together with the pid
    certificate: str = ""  # of its TLS, trusted by clients on this machine; empty without TLS

    @property
    def is_current(self) -> bool:
        return is_alive(self.pid, self.pid_started_at)


def address_file(root: Path) -> Path:
    return root / HOME / "daemon.json"


def token_file(root: Path) -> Path:
    return root / HOME / "token"


def write_daemon_address(root: Path, url: str, certificate: str = "") -> DaemonAddress:
    started_at = process_started_at(os.getpid())
    assert started_at is not None, "this process is alive"
    daemon_address = DaemonAddress(url, os.getpid(), started_at, certificate)
    write_json(address_file(root), asdict(daemon_address), durable=False)
    return daemon_address


def remove_daemon_address(root: Path, daemon_address: DaemonAddress) -> None:
    """Removes the file if it is that of this daemon, not of a later one."""
    if read_daemon_address(root) == daemon_address:
        address_file(root).unlink(missing_ok=True)


def read_daemon_address(root: Path) -> DaemonAddress | None:
    """Returns None without a valid file."""
    path = address_file(root)
    try:
        data = read_json(path, max_bytes=1 << 16)
        return DaemonAddress(
            str(data["url"]), int(data["pid"]), float(data["pid_started_at"]), str(data["certificate"])
        )
    except (NotFound, DamagedFile, KeyError, TypeError, ValueError):
        return None


def find_daemon(root: Path) -> DaemonAddress:
    """Returns the address of the running daemon. Raises NotFound."""
    daemon_address = read_daemon_address(root)
    if daemon_address is None or not daemon_address.is_current:
        raise NotFound(f"No daemon is running for the runs in {root}.", "Start one: palaestra serve")
    return daemon_address
