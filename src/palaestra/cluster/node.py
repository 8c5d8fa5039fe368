"""`python -m palaestra.cluster.node FLAGS…`: Ray's own `ray start`, in the foreground, ended with its parent."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
import threading
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import Address, address_towards, read_address
from palaestra.cluster.installed import load_ray, on_loopback
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LOOPBACK = "127.0.0.1"
PORT = 6379  # Ray's usual one
IPV6 = 6
STANDARD_INPUT = 0


@dataclass(frozen=True)
class NodeOrder:
    """One machine's part in a cluster."""

    address: Address  # of the head: our own if we are it
    is_head: bool
    cpus: int | None = None  # None: as many as there are
    gpus: int | None = None
    host: str = ""  # of this machine, where it is not the head; empty: the one on the route to the head

    def own_host(self) -> str:
        """The address by which the others reach this machine. The host name may resolve to a loopback address."""
        return self.address.host if self.is_head else self.host or address_towards(self.address)

    def words(self, folder: Path) -> list[str]:
        """For `ray start`; everything that it writes lies under `folder`."""
        if self.is_head:
            place = ["--head", f"--port={self.address.port}", "--include-dashboard=false"]
        else:
            place = [f"--address={self.address}"]
        place += [f"--node-ip-address={self.own_host()}"]
        amounts = [f"--num-cpus={self.cpus}"] if self.cpus is not None else []
        amounts += [f"--num-gpus={self.gpus}"] if self.gpus is not None else []
        return [*place, *amounts, f"--temp-dir={folder}", "--disable-usage-stats", "--block"]


def read_order(*, head: bool, address: str, host: str, port: int, cpus: int | None, gpus: int | None) -> NodeOrder:
    """From the flags of `palaestra worker`; an empty host is the usual one."""
    if head and address:
        raise UsageError("--head starts a cluster and --address joins one; both were given.", "Leave one of them out.")
    if address:
        if host:
            validate_own_address(host)
        return NodeOrder(read_address(address, key="--address"), is_head=False, cpus=cpus, gpus=gpus, host=host)
    if not head:
        raise UsageError(
            "Neither a cluster to join nor a new one was asked for.",
            "'palaestra worker --head' starts one; '--address HOST:PORT' joins the one whose head is there.",
        )
    host = host or LOOPBACK
    place = read_address(f"{host}:{port}" if ":" not in host else f"[{host}]:{port}", key="--host")
    return NodeOrder(place, is_head=True, cpus=cpus, gpus=gpus)


def validate_own_address(host: str) -> None:
    """Refuses what is no address of this machine: only those can be bound."""
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == IPV6 else socket.AF_INET
        with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
            probe.bind((host, 0))
    except ValueError:
        raise UsageError(
            f"--host {host!r} is not an IP address.", "Write one of this machine, as in 10.0.0.6."
        ) from None
    except OSError as error:
        raise UsageError(
            f"--host {host} is not an address of this machine: {error.strerror}.",
            "'ip address' lists them; leave --host out for the one on the route to the head.",
        ) from error


def main(words: Sequence[str]) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load_ray()
    scripts: Any = import_module("ray.scripts.scripts")
    scripts.get_ray_client_dependency_error = _no_ray_client
    with on_loopback():
        scripts.start.main(args=list(words), standalone_mode=False)
    return 0


def _no_ray_client() -> str:
    """Ray would open port 10001 for `ray://` addresses, which nobody here uses."""
    return "not used"


def _end_with_parent() -> None:
    """Our parent holds the other end of standard input; SIGTERM, because Ray needs a moment to end all of its own."""
    while os.read(STANDARD_INPUT, 1024):  # no buffer: at the end of Python nobody may hold its lock
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
