"""The installed Ray: imported when it is needed, with the current environment variables, in a private directory."""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import MissingExtra, UsageError
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

logger = logging.getLogger(__name__)

OLDEST = (2, 54)  # the first whose embedded clusters all have tokens
EXTRA = "cluster"
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_USAGE_STATS_PROMPT_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a task without a GPU leaves CUDA_VISIBLE_DEVICES alone
}


def require_ray() -> None:
    """Refuses a missing or too old Ray."""
    try:
        found = version("ray")
    except PackageNotFoundError:
        raise MissingExtra("Ray", EXTRA) from None
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    if numbers < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise UsageError(
            f"Ray {found} is too old: before {wanted} anyone on the network can run code in it.",
            f"Install it with: pip install 'palaestra[{EXTRA}]' --upgrade",
        )


def load_ray() -> Any:
    """Imports Ray (half a second)."""
    require_ray()
    return import_module("ray")


@contextmanager
def ray_variables(variables: Mapping[str, str]) -> Iterator[Any]:
    """Ray with these environment variables, which its processes inherit; restored afterwards."""
    wanted = {**QUIET, **variables}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        ray = load_ray()
        _read_again()
        yield ray
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _read_again()


@contextmanager
def on_loopback() -> Iterator[None]:
    """Keeps Ray from replacing 127.0.0.1 by an address that other machines can reach."""
    services: Any = import_module("ray._private.services")
    before = services.resolve_ip_for_localhost
    services.resolve_ip_for_localhost = _unchanged
    try:
        yield
    finally:
        services.resolve_ip_for_localhost = before


@contextmanager
def quiet() -> Iterator[None]:
    """Logs the messages of Ray's machines, which Ray would print on standard output."""
    worker: Any = import_module("ray._private.worker")
    before = worker.print_to_stdstream
    worker.print_to_stdstream = _log
    try:
        yield
    finally:
        worker.print_to_stdstream = before


def _log(data: Mapping[str, Any], **_settings: object) -> None:
    for line in data["lines"]:
        logger.info("Ray: %s", line)


def _unchanged(host: str) -> str:
    return host


def _read_again() -> None:
    """Makes Ray read its settings and its token again, for a second session in this process."""
    native: Any = import_module("ray._raylet")
    native.Config.initialize("")
    native.AuthenticationTokenLoader.instance().reset_cache()


PREFIX = "palaestra-ray-"
OWNER = "owner"  # a file with the process that made the folder: pid, and when it started
MAX_PATH_LENGTH = 45  # Ray's sockets lie 62 characters deeper, and the kernel takes 107


@contextmanager
def private_directory() -> Iterator[Path]:
    """A directory that only this user can enter, since Ray makes its own readable for all."""
    base = tempfile.gettempdir()
    if len(base) > MAX_PATH_LENGTH - len("/palaestra-ray-12345678/r"):
        base = "/tmp"  # noqa: S108  mkdtemp makes a folder that is ours alone
    sweep(Path(base))
    outer = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    (outer / OWNER).write_text(f"{os.getpid()} {process_started_at(os.getpid())}", encoding="ascii")
    inner = outer / "r"
    inner.mkdir()
    try:
        yield inner
    finally:
        shutil.rmtree(outer, ignore_errors=True)  # a process of Ray's may still be writing its last line


def sweep(base: Path) -> None:
    """Removes the directories of killed sessions."""
    for folder in base.glob(f"{PREFIX}*"):
        try:
            if folder.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            pid, started_at = (folder / OWNER).read_text(encoding="ascii").split()
            if not is_alive(int(pid), float(started_at)):
                shutil.rmtree(folder, ignore_errors=True)
        except (OSError, ValueError):  # gone meanwhile, or just being made
            continue
