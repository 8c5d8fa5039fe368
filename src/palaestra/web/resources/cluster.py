"""The Ray clusters that this daemon knows: nodes, load, versions, last sign of life and work in flight.

A question takes a process and some seconds, so a reply never waits for one: it holds the newest state that is known,
and asks again in the background once that is old. Nobody asks while nobody watches.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, TypedDict, cast

from palaestra.cluster.address import cluster_of, configured_address, read_address
from palaestra.cluster.status import read_status
from palaestra.core.errors import NotFound, PalaestraError, UsageError
from palaestra.web.endpoints import Call, Endpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from palaestra.cluster.status import ClusterStatus
    from palaestra.daemon.service import Daemon
    from palaestra.web.context import AppContext

SERVICE = "cluster"
FRESH_SECONDS = 30.0


class ClusterNode(TypedDict):
    host: str
    address: str
    state: str  # up, silent (known to Ray, but did not respond), dead
    is_head: bool
    cpus: float
    cpus_used: float
    gpus: float
    gpus_used: float
    versions: dict[str, str]
    code: str  # same, different, unknown
    differences: list[str]
    last_sign_seconds: float | None
    reason: str


class ClusterWork(TypedDict):
    address: str
    pid: int
    command: str


class Cluster(TypedDict):
    address: str
    is_refreshing: bool
    checked_at: float | None  # None: no response yet
    nodes: list[ClusterNode]
    jobs: list[ClusterWork]
    error: str | None  # why the last request failed
    hint: str | None


class Clusters(TypedDict):
    clusters: list[Cluster]


@dataclass
class _CachedStatus:
    """The result of the last request."""

    is_refreshing: bool = False
    requested_at: float | None = None  # monotonic
    checked_at: float | None = None
    status: ClusterStatus | None = None
    error: PalaestraError | None = None


@dataclass
class ClusterMonitor:
    read: Callable[[str], ClusterStatus] = read_status
    _known: dict[str, _CachedStatus] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def describe(self, address: str) -> Cluster:
        """Returns the cached status at once, and refreshes it in a thread if it is old."""
        with self._lock:
            known = self._known.setdefault(address, _CachedStatus())
            is_old = known.requested_at is None or time.monotonic() - known.requested_at > FRESH_SECONDS
            if is_old and not known.is_refreshing:
                known.is_refreshing, known.requested_at = True, time.monotonic()
                threading.Thread(target=self._refresh, args=(address, known), name="cluster", daemon=True).start()
            status = known.status
            return {
                "address": address,
                "is_refreshing": known.is_refreshing,
                "checked_at": known.checked_at,
                "nodes": [] if status is None else [cast("ClusterNode", asdict(node)) for node in status.nodes],
                "jobs": [] if status is None else [cast("ClusterWork", asdict(job)) for job in status.jobs],
                "error": None if known.error is None else known.error.message,
                "hint": None if known.error is None else known.error.hint,
            }

    def _refresh(self, address: str, known: _CachedStatus) -> None:
        status, error = None, None
        try:
            status = self.read(address)
        except PalaestraError as problem:
            error = problem
        with self._lock:
            known.status, known.error = status or known.status, error
            known.checked_at, known.requested_at, known.is_refreshing = time.time(), time.monotonic(), False


def known_addresses(daemon: Daemon) -> list[str]:
    """RAY_ADDRESS of the daemon, then `cluster.address` of its runs that have not ended."""
    named = [configured_address(None)]
    for entry in daemon.runs():
        if not entry.state.is_over:
            with contextlib.suppress(NotFound):
                named.append(cluster_of(daemon.directory(entry.id)).address)
    found: dict[str, None] = {}
    for text in named:
        with contextlib.suppress(UsageError):  # the run itself reports a wrong address
            if text:
                found[str(read_address(text))] = None
    return list(found)


def show_clusters(call: Call) -> Clusters:
    monitor: ClusterMonitor = call.context.services[SERVICE]
    return {"clusters": [monitor.describe(address) for address in known_addresses(call.context.daemon)]}


@contextlib.asynccontextmanager
async def clusters_lifespan(context: AppContext) -> AsyncIterator[None]:
    context.services[SERVICE] = ClusterMonitor()
    yield


ROUTES = (
    Endpoint("GET", "/api/clusters", show_clusters, "nodes and work of the Ray clusters in use", response=Clusters),
)
