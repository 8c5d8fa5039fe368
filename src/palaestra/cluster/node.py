"""`python -m palaestra.cluster.node FLAGS…`: Ray's own `ray start`, in the foreground, ended with its parent."""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import Address, read_address
from palaestra.cluster.installed import load_ray, on_loopback
from palaestra.contracts.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LOOPBACK = "127.0.0.1"
PORT = 6379  # Ray's usual one
STANDARD_INPUT = 0


@dataclass(frozen=True)
class NodeOrder:
    """One machine's part in a cluster."""

    address: Address  # of the head: our own if we are it
    is_head: bool
    cpus: int | None = None  # None: as many as there are
    gpus: int | None = None

    def words(self, folder: Path) -> list[str]:
        """For `ray start`; everything that it writes lies under `folder`."""
        if self.is_head:
            place = ["--head", f"--port={self.address.port}", f"--node-ip-address={self.address.host}"]
            place += ["--include-dashboard=false"]
        else:
            place = [f"--address={self.address}"]
            place += [f"--node-ip-address={LOOPBACK}"] if self.address.is_local else []
        amounts = [f"--num-cpus={self.cpus}"] if self.cpus is not None else []
        amounts += [f"--num-gpus={self.gpus}"] if self.gpus is not None else []
        return [*place, *amounts, f"--temp-dir={folder}", "--disable-usage-stats", "--block"]


def read_order(*, head: bool, address: str, host: str, port: int, cpus: int | None, gpus: int | None) -> NodeOrder:
    """From the flags of `palaestra worker`."""
    if head and address:
        raise UsageError("--head starts a cluster and --address joins one; both were given.", "Leave one of them out.")
    if address:
        return NodeOrder(read_address(address, key="--address"), is_head=False, cpus=cpus, gpus=gpus)
    if not head:
        raise UsageError(
            "Neither a cluster to join nor a new one was asked for.",
            "'palaestra worker --head' starts one; '--address HOST:PORT' joins the one whose head is there.",
        )
    place = read_address(f"{host}:{port}" if ":" not in host else f"[{host}]:{port}", key="--host")
    return NodeOrder(place, is_head=True, cpus=cpus, gpus=gpus)


def main(words: Sequence[str]) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load_ray()
    scripts: Any = import_module("ray.scripts.scripts")
    with on_loopback():
        scripts.start.main(args=list(words), standalone_mode=False)
    return 0


def _end_with_parent() -> None:
    """Our parent holds the other end of standard input; SIGTERM, because Ray needs a moment to end all of its own."""
    while os.read(STANDARD_INPUT, 1024):  # no buffer: at the end of Python nobody may hold its lock
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
