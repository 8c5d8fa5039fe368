"""A session with Ray: embedded in this process, or with an existing cluster, which is never stopped."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import Address, read_address
from palaestra.cluster.nodes import find_excluded_nodes, selector
from palaestra.cluster.probe import probe
from palaestra.cluster.ray_runtime import load_ray, on_loopback, private_directory, quiet, ray_variables
from palaestra.cluster.token import access, fresh_access
from palaestra.core.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.cluster.nodes import ExcludedNode

LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 256 * 2**20
SILENT = {"log_to_driver": False, "configure_logging": False}


@dataclass(frozen=True)
class RaySession:
    """An open session; `ray` is the connected module."""

    ray: Any
    address: str  # of the head, HOST:PORT
    is_embedded: bool  # it ends with the block that opened it
    excluded: tuple[ExcludedNode, ...] = ()  # nodes that cannot be used

    @property
    def cpus(self) -> float:
        """The CPUs of all machines."""
        return float(self.ray.cluster_resources().get("CPU", 0.0))

    @property
    def label_selector(self) -> dict[str, str]:
        """The label selector for tasks and actors: all nodes but the excluded ones."""
        return selector(one.node.id for one in self.excluded)

    @property
    def gpus(self) -> float:
        return float(self.ray.cluster_resources().get("GPU", 0.0))


@contextmanager
def open_ray(
    address: str | None = None,
    *,
    cpus: int | None = None,
    is_checked: bool = True,
    allow_different_code: bool = False,
) -> Iterator[RaySession]:
    """Opens Ray for the duration of the block: at `address`, else embedded with `cpus` CPUs.

    The code of all nodes is compared first, unless `is_checked` is False and the caller does so.
    A session that is already open in this process is used and stays open.
    """
    ray = load_ray()
    if ray.is_initialized():
        yield RaySession(ray, ray.get_runtime_context().gcs_address, is_embedded=False)
        return
    with ExitStack() as stack:
        if address is None:
            yield _embedded(stack, cpus)
        else:
            session = _joined(stack, read_address(address))
            if is_checked:
                excluded = find_excluded_nodes(session.ray, allow_different_code=allow_different_code)
                session = replace(session, excluded=excluded)
            yield session


def _embedded(stack: ExitStack, cpus: int | None) -> RaySession:
    ray = stack.enter_context(ray_variables(fresh_access()))
    stack.enter_context(on_loopback())
    stack.enter_context(quiet())
    folder = stack.enter_context(private_directory())
    try:
        with _keep_signal_handlers():
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
            f"Its logs lie under {folder} for as long as it tries; is there space in /tmp and /dev/shm?",
        ) from error
    stack.callback(ray.shutdown)
    return RaySession(ray, context.address_info["gcs_address"], is_embedded=True)


def _joined(stack: ExitStack, address: Address) -> RaySession:
    variables = access(address, os.environ)
    probe(address, variables)
    ray = stack.enter_context(ray_variables(variables))
    stack.enter_context(on_loopback())
    stack.enter_context(quiet())
    try:
        with _keep_signal_handlers():
            context = ray.init(address=str(address), **SILENT)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise RunFailed(f"The cluster at {address} responded and then failed: {reason}", "Try again.") from error
    stack.callback(ray.shutdown)
    return RaySession(ray, context.address_info["gcs_address"], is_embedded=False)


@contextmanager
def _keep_signal_handlers() -> Iterator[None]:
    """Restores the signal handlers that Ray replaces."""
    try:
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        yield
    finally:
        for number, handler in before.items():
            try:
                signal.signal(number, handler)
            except ValueError:  # not in the main thread: Ray could not take it either
                break
