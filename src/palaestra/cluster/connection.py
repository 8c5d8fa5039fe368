"""A session with Ray: embedded in this process, or with a cluster that somebody runs. Nobody's Ray is ever stopped."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import Address, read_address
from palaestra.cluster.installed import load_ray, on_loopback, ray_variables
from palaestra.cluster.nodes import demand_same_palaestra
from palaestra.cluster.probe import probe
from palaestra.cluster.token import access, fresh_access
from palaestra.contracts.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 256 * 2**20
LONGEST_SOCKET_FOLDER = 45  # Ray's sockets lie 62 characters deeper, and the kernel takes 107
SILENT = {"log_to_driver": False, "configure_logging": False}


@dataclass(frozen=True)
class RaySession:
    """An open session of this process; `ray` is the module, connected."""

    ray: Any
    address: str  # of the head, HOST:PORT
    is_embedded: bool  # it ends with the block that opened it

    @property
    def cpus(self) -> float:
        """Of all machines together."""
        return float(self.ray.cluster_resources().get("CPU", 0.0))

    @property
    def gpus(self) -> float:
        return float(self.ray.cluster_resources().get("GPU", 0.0))


@contextmanager
def open_ray(address: str | None = None, *, cpus: int | None = None) -> Iterator[RaySession]:
    """Ray for the block's duration: at `address`, else on this machine alone, told that it has `cpus`.

    A session that is open already in this process is used as it is, whoever opened it, and stays open.
    """
    ray = load_ray()
    if ray.is_initialized():
        yield RaySession(ray, ray.get_runtime_context().gcs_address, is_embedded=False)
        return
    with ExitStack() as stack:
        if address is None:
            yield _embedded(stack, cpus)
        else:
            yield _joined(stack, read_address(address))


def _embedded(stack: ExitStack, cpus: int | None) -> RaySession:
    ray = stack.enter_context(ray_variables(fresh_access()))
    stack.enter_context(on_loopback())
    folder = stack.enter_context(_private_folder())
    try:
        with _signals_kept():
            context = ray.init(
                address="local",
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _node_ip_address=LOOPBACK,
                _temp_dir=str(folder),
                **SILENT,
            )
    except (OSError, RuntimeError, ValueError) as error:
        raise RunFailed(
            f"Ray did not start on this machine: {str(error).strip().partition(chr(10))[0]}",
            f"Its logs lie under {folder} for as long as it tries; is there room in /tmp and /dev/shm?",
        ) from error
    stack.callback(ray.shutdown)
    return RaySession(ray, context.address_info["gcs_address"], is_embedded=True)


def _joined(stack: ExitStack, address: Address) -> RaySession:
    ray = stack.enter_context(ray_variables(access(address, os.environ)))
    if address.is_local:
        stack.enter_context(on_loopback())
    probe(address)
    try:
        with _signals_kept():
            context = ray.init(address=str(address), **SILENT)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise RunFailed(f"The cluster at {address} answered, and then did not: {reason}", "Try again.") from error
    stack.callback(ray.shutdown)
    demand_same_palaestra(ray)
    return RaySession(ray, context.address_info["gcs_address"], is_embedded=False)


@contextmanager
def _private_folder() -> Iterator[Path]:
    """Ray opens its own folder to everybody, so it lies in one that is ours alone."""
    base = tempfile.gettempdir()
    if len(base) > LONGEST_SOCKET_FOLDER - len("/palaestra-ray-12345678/r"):
        base = "/tmp"  # noqa: S108  mkdtemp makes a folder that is ours alone
    outer = Path(tempfile.mkdtemp(prefix="palaestra-ray-", dir=base))
    inner = outer / "r"
    inner.mkdir()
    try:
        yield inner
    finally:
        shutil.rmtree(outer, ignore_errors=True)  # a process of Ray's may still be writing its last line


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself; whoever listened before goes on listening."""
    try:
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        yield
    finally:
        for number, handler in before.items():
            try:
                signal.signal(number, handler)
            except ValueError:  # not in the main thread: Ray could not take it either
                break
