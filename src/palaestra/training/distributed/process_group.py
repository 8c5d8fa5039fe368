"""torch's process group, opened at a chosen address, with connections that another thread can break.

torch.distributed offers neither: its gloo takes the address of the host name (or of an interface, of which it takes any
address), and a collective of gloo that waits for a lost rank can only be waited for until its time-out.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch.distributed as dist

from palaestra.training.distributed.addresses import NCCL_INTERFACE

if TYPE_CHECKING:
    from datetime import timedelta

    from torch._C._distributed_c10d import Store

    from palaestra.training.distributed.addresses import Endpoint

GLOO_HERE = "gloo_at_address"  # the name of our backend: gloo, bound to one address
OPEN_FILES = Path("/proc/self/fd")


class ProcessGroupConnections:
    """The sockets that torch opened for its process group; found by comparing the open files before and after."""

    def __init__(self, before: dict[int, str], after: dict[int, str]) -> None:
        self._sockets = {fd: name for fd, name in after.items() if before.get(fd) != name}

    def break_all(self) -> None:
        """Every collective that waits on them fails at once. Safe from any thread, also if descriptors were reused."""
        for descriptor, name in self._sockets.items():
            if _socket_name(descriptor) != name:
                continue
            with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
                is_listening = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if not is_listening:  # gloo takes an error of its listener for the end of the world
                    connection.shutdown(socket.SHUT_RDWR)


def open_process_group(
    backend: str, store: Store, rank: int, world_size: int, timeout: timedelta, endpoint: Endpoint
) -> ProcessGroupConnections:
    """`dist.init_process_group` with gloo bound to the endpoint's address, and nccl to its interface."""
    if "nccl" in backend and endpoint.interface:
        os.environ.setdefault(NCCL_INTERFACE, f"={endpoint.interface}")
    dist.Backend.register_backend(GLOO_HERE, partial(_make_gloo, endpoint.address), devices=["cpu"])
    before = open_sockets()
    dist.init_process_group(
        backend.replace("gloo", GLOO_HERE), store=store, rank=rank, world_size=world_size, timeout=timeout
    )
    return ProcessGroupConnections(before, open_sockets())


def open_sockets() -> dict[int, str]:
    """By descriptor: the kernel's name, which no other socket ever has. Empty where the system does not tell."""
    try:
        descriptors = [int(name) for name in os.listdir(OPEN_FILES)]  # noqa: PTH208  names only
    except OSError:
        return {}
    names = {descriptor: _socket_name(descriptor) for descriptor in descriptors}
    return {descriptor: name for descriptor, name in names.items() if name}


def _make_gloo(address: str, store: Store, rank: int, world_size: int, timeout: timedelta) -> dist.ProcessGroupGloo:
    # the only way to name a device
    options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._timeout = timeout
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=address, lazy_init=False)]
    return dist.ProcessGroupGloo(store, rank, world_size, options)


def _socket_name(descriptor: int) -> str:
    try:
        name = str((OPEN_FILES / str(descriptor)).readlink())
    except OSError:  # closed meanwhile
        return ""
    return name if name.startswith("socket:") else ""
