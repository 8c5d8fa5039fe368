"""Where ranks meet before torch.distributed is open: the store at MASTER_ADDR:MASTER_PORT.

Every rank posts who and where it is, and learns that of the others. A rank that is refused before it could join (a
setting, an interface that does not exist) posts that too, so that the others do not wait for it.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from palaestra.algorithms.group import PeerLost
from palaestra.core.errors import RunFailed
from palaestra.core.lazy_import import lazy_import
from palaestra.training.distributed.rank_info import LISTENING, elastic_restarts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch._C import _distributed_c10d as c10d

    from palaestra.training.distributed.rank_info import RankInfo
else:
    c10d = lazy_import("torch._C._distributed_c10d")

CHECK_SECONDS = 0.05
CONNECT_SECONDS = 5.0  # of one attempt to reach the store
REFUSAL = "refusal"
CONFIRMATIONS = "refusal_confirmed"


@dataclass(frozen=True)
class Member:
    """What a rank posts of itself."""

    rank: int
    host: str
    address: str  # from which it reaches rank 0; empty: unknown
    process: str  # see `peer_watch.describe_process`
    port: int = 0  # of rank 0: where it listens for heartbeats
    token: str = ""  # of rank 0: the others show it there
    settings: dict[str, Any] = field(default_factory=dict)  # of rank 0: what holds for all


class Rendezvous:
    """The store, opened: rank 0 keeps it, unless torchrun does."""

    def __init__(self, rank_info: RankInfo, timeout_seconds: float, variables: Mapping[str, str] = os.environ) -> None:
        self._rank_info = rank_info
        self._timeout_seconds = timeout_seconds
        self._deadline = monotonic() + timeout_seconds
        by_agent = variables.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        self._is_server = rank_info.rank == 0 and not by_agent
        if not self._is_server:
            self._wait_for_server()
        listening = variables.get(LISTENING) if self._is_server else None
        store = self._within_deadline(lambda: self._open_store(int(listening) if listening else None))
        self.store: c10d.Store = c10d.PrefixStore(f"palaestra/{elastic_restarts(variables)}", store)

    def post(self, member: Member) -> None:
        self.store.set(_key(member.rank), json.dumps(asdict(member)))

    def member(self, rank: int, cause: Callable[[], str] = str) -> Member:
        """What a rank has posted; waits for it. `cause` gives the reason of a failure that was found elsewhere."""
        while not self.store.check([_key(rank)]):
            self._demand_no_refusal()
            if reason := cause():
                raise PeerLost(reason)
            if monotonic() > self._deadline:
                raise RunFailed(
                    f"{self._name} found no rank {rank} at {self._where} within {self._timeout_seconds:g} s "
                    "(distributed.timeout_seconds).",
                    "Does every rank run, with the same MASTER_ADDR and MASTER_PORT?",
                )
            sleep(CHECK_SECONDS)
        return Member(**json.loads(self.store.get(_key(rank))))

    def post_refusal(self, message: str, seconds: float) -> None:
        """This rank will not join. Waits for up to `seconds` until all others know."""
        self.store.compare_set(REFUSAL, "", json.dumps({"rank": self._rank_info.rank, "message": message}))
        deadline = monotonic() + seconds
        while self.store.add(CONFIRMATIONS, 0) < self._rank_info.world_size - 1 and monotonic() < deadline:
            sleep(CHECK_SECONDS)

    def _demand_no_refusal(self) -> None:
        if self.store.check([REFUSAL]):
            refusal = json.loads(self.store.get(REFUSAL))
            self.store.add(CONFIRMATIONS, 1)
            raise PeerLost(f"Rank {refusal['rank']} failed first: {refusal['message']}")

    def _wait_for_server(self) -> None:
        """Connecting by ourselves gives the plain reason where PyTorch would only count its attempts."""
        address = (self._rank_info.address, self._rank_info.port)
        while True:
            try:
                socket.create_connection(address, CONNECT_SECONDS).close()
            except (OSError, UnicodeError) as error:
                if monotonic() > self._deadline:
                    raise RunFailed(
                        f"{self._name} could not reach rank 0 at {self._where} within {self._timeout_seconds:g} s "
                        f"(distributed.timeout_seconds): {getattr(error, 'strerror', None) or error}.",
                        "Is MASTER_ADDR right, does rank 0 run, and is the port open between the machines?",
                    ) from error
                sleep(CHECK_SECONDS * 4)
            else:
                return

    def _open_store(self, listening: int | None) -> c10d.Store:
        return c10d.TCPStore(
            self._rank_info.address,
            self._rank_info.port,
            self._rank_info.world_size,
            self._is_server,
            timedelta(seconds=self._timeout_seconds),
            wait_for_workers=False,
            multi_tenant=False,
            master_listen_fd=listening,
        )

    def _within_deadline(self, open_store: Callable[[], c10d.Store]) -> c10d.Store:
        """In a thread, because another program at that port may accept the connection and never answer."""
        result: list[c10d.Store | RuntimeError] = []

        def work() -> None:
            try:
                result.append(open_store())
            except RuntimeError as error:
                result.append(error)

        thread = threading.Thread(target=work, name="palaestra-store", daemon=True)
        thread.start()
        thread.join(max(0.1, self._deadline - monotonic()))
        if result and not isinstance(result[0], RuntimeError):
            return result[0]
        reason = str(result[0]).strip().partition("\n")[0] if result else "the program at that port does not answer"
        raise RunFailed(
            f"{self._name} could not join the others at {self._where}: {reason}",
            "Is the port used by another program? Choose another MASTER_PORT.",
        )

    @property
    def _name(self) -> str:
        return f"{self._rank_info} on {socket.gethostname()}"

    @property
    def _where(self) -> str:
        address = self._rank_info.address
        return f"[{address}]:{self._rank_info.port}" if ":" in address else f"{address}:{self._rank_info.port}"


def post_refusal(rank_info: RankInfo, message: str, seconds: float) -> None:
    """For a rank that cannot start to join: the others end with this reason instead of waiting for it."""
    try:
        Rendezvous(rank_info, seconds).post_refusal(message, seconds)
    except (RunFailed, RuntimeError):  # the store is gone
        return


def _key(rank: int) -> str:
    return f"member/{rank}"
