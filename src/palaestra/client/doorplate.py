"""Where the daemon of a runs directory is to be found: a small file beside its token."""

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
class Doorplate:
    url: str  # "http://127.0.0.1:7878"
    pid: int
    pid_started_at: float  # with the pid it names one process, ever
    certificate: str = ""  # of its own TLS, to be trusted by callers of this machine; empty without

    @property
    def is_current(self) -> bool:
        return is_alive(self.pid, self.pid_started_at)


def doorplate_file(root: Path) -> Path:
    return root / HOME / "daemon.json"


def token_file(root: Path) -> Path:
    return root / HOME / "token"


def hang_doorplate(root: Path, url: str, certificate: str = "") -> Doorplate:
    started_at = process_started_at(os.getpid())
    assert started_at is not None, "this process is alive"
    plate = Doorplate(url, os.getpid(), started_at, certificate)
    write_json(doorplate_file(root), asdict(plate), durable=False)
    return plate


def take_down(root: Path, plate: Doorplate) -> None:
    """Only our own: by now another daemon may have hung its own."""
    if read_doorplate(root) == plate:
        doorplate_file(root).unlink(missing_ok=True)


def read_doorplate(root: Path) -> Doorplate | None:
    """None when there is none, or none that can be read."""
    path = doorplate_file(root)
    try:
        data = read_json(path, max_bytes=1 << 16)
        return Doorplate(str(data["url"]), int(data["pid"]), float(data["pid_started_at"]), str(data["certificate"]))
    except (NotFound, DamagedFile, KeyError, TypeError, ValueError):
        return None


def find_daemon(root: Path) -> Doorplate:
    """The one that serves these runs now."""
    plate = read_doorplate(root)
    if plate is None or not plate.is_current:
        raise NotFound(f"No daemon is running for the runs in {root}.", "Start one: palaestra serve")
    return plate
