"""The nodes of a cluster: queries to all at once, comparison of their code, and monitoring by connections."""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from palaestra.core.clock import Clock, SystemClock
from palaestra.core.errors import RunFailed, UsageError
from palaestra.runs.environment import (
    CodeDifferences,
    CodeIdentity,
    code_of_process,
    compare_code,
    describe_differences,
    shorten,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

logger = logging.getLogger(__name__)

FIRST_ANSWER_SECONDS = 60.0  # the first task of a node starts a Python process there
ANSWER_SECONDS = 5.0  # for the others, once one has responded
POLL_SECONDS = 0.2
NODE_LABEL = "ray.io/node-id"  # every node of Ray has this label


def selector(excluded: Iterable[str]) -> dict[str, str]:
    """The `label_selector` of a task or an actor: any node but these."""
    ids = sorted(excluded)
    return {NODE_LABEL: f"!in({', '.join(ids)})"} if ids else {}


def describe(code: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Runs on a node: its host name, and how its code differs from the driver's."""
    different = compare_code(CodeIdentity(**code))
    return socket.gethostname(), None if different is None else asdict(different)


@dataclass(frozen=True)
class ExcludedNode:
    """A node that cannot be used, and why."""

    node: Node
    reason: str
    has_different_code: bool = False

    def __str__(self) -> str:
        return f"{self.node.name}: {self.reason}"


@dataclass(frozen=True)
class NodeResponses:
    """The responses of the nodes to one query; nodes without one are excluded."""

    by_node: dict[str, Any] = field(default_factory=dict)  # by id
    responded_at: dict[str, float] = field(default_factory=dict)  # by id, of this process's monotonic clock
    excluded: tuple[ExcludedNode, ...] = ()


def query_each(ray: Any, question: Any, *arguments: Any) -> list[Any]:
    """The results of `question(*arguments)` on every node that responds in time; takes no CPU of the cluster."""
    return list(query_nodes(ray, question, *arguments).by_node.values())


def query_nodes(ray: Any, question: Any, *arguments: Any) -> NodeResponses:
    """Queries all nodes at once; excludes those that are unreachable or much slower than the first."""
    found = alive_nodes(ray)
    silent = unreachable(found)
    by_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    task = ray.remote(question)
    asked = {
        task.options(num_cpus=0, max_retries=0, scheduling_strategy=by_node(node.id, soft=False)).remote(
            *arguments
        ): node
        for node in found
        if node.id not in silent
    }
    excluded = [ExcludedNode(node, silent[node.id]) for node in found if node.id in silent]
    responses: dict[str, Any] = {}
    responded_at: dict[str, float] = {}
    limit = time.monotonic() + FIRST_ANSWER_SECONDS
    while asked and time.monotonic() < limit:
        ready, _ = ray.wait(list(asked), num_returns=1, timeout=POLL_SECONDS)
        for reference in ready:
            node = asked.pop(reference)
            try:
                responses[node.id] = ray.get(reference)
                responded_at[node.id] = time.monotonic()
                limit = min(limit, responded_at[node.id] + ANSWER_SECONDS)
            except ray.exceptions.RayError as error:
                excluded.append(ExcludedNode(node, f"it cannot run Palaestra: {last_line(error)}"))
    excluded += [ExcludedNode(node, "it did not respond in time") for node in asked.values()]
    in_order = {node.id: responses[node.id] for node in found if node.id in responses}
    return NodeResponses(in_order, responded_at, tuple(excluded))


def find_excluded_nodes(
    ray: Any, modules: Sequence[str] = (), *, allow_different_code: bool = False
) -> tuple[ExcludedNode, ...]:
    """The nodes that do not respond, or whose code differs from that of this process.

    Logs one warning for each; raises when no usable node is left.
    """
    code = code_of_process(tuple(modules))
    fields = {"python": code.python, "packages": code.packages, "package": code.package, "modules": code.modules}
    responses = query_nodes(ray, describe, fields)
    excluded = list(responses.excluded)
    by_id = {node.id: node for node in alive_nodes(ray)}
    for node_id, (host, different) in responses.by_node.items():
        if different is None:
            continue
        names = shorten(
            describe_differences(CodeDifferences(**{**different, "versions": tuple(different["versions"])}))
        )
        node = by_id.get(node_id, Node(node_id, host, 0.0, 0.0))
        if allow_different_code:
            logger.warning("The code on %s differs (%s); cluster.allow_different_code=true accepts it.", host, names)
        else:
            excluded.append(ExcludedNode(node, f"its code differs: {names}", has_different_code=True))
    if len(excluded) >= len(responses.by_node) + len(responses.excluded):
        raise no_usable_node(excluded)
    for one in excluded:
        logger.warning("Node left out: %s", one)
    return tuple(excluded)


def no_usable_node(excluded: Iterable[ExcludedNode]) -> UsageError | RunFailed:
    reasons = list(excluded)
    listed = "; ".join(map(str, reasons)) or "it has none"
    message = f"No node of the cluster can be used. {listed}."
    if any(one.has_different_code for one in reasons):
        return UsageError(
            message, "Install the same code on every machine, or accept it with cluster.allow_different_code=true."
        )
    return RunFailed(message, "See 'palaestra cluster'.")


def last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(getattr(error, "cause", None) or error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


CONNECT_SECONDS = 5.0  # for a node that should be there
PING_SECONDS = 2.0  # between two pings
STALE_SECONDS = 4.0  # a new connection is tried then: the kernel repeats its own ever more rarely
PING_POLL_SECONDS = 0.02
PENDING = {errno.EINPROGRESS, errno.EALREADY}
CONNECTED = {0, errno.EISCONN}
GONE = {errno.ECONNREFUSED, errno.ECONNRESET}  # the machine is there, but its raylet is not


@dataclass(frozen=True)
class Node:
    id: str
    address: str
    cpus: float
    gpus: float
    host: str = ""
    port: int = 0  # of its raylet

    @property
    def name(self) -> str:
        return f"{self.host} ({self.address})" if self.host and self.host != self.address else self.address


def alive_nodes(ray: Any) -> list[Node]:
    """The nodes that Ray counts as alive, including the head."""
    return [node_of(entry) for entry in ray.nodes() if entry["Alive"]]


def node_of(entry: dict[str, Any]) -> Node:
    """A node from an entry of `ray.nodes()`."""
    resources = entry["Resources"]
    return Node(
        entry["NodeID"],
        entry["NodeManagerAddress"],
        resources.get("CPU", 0.0),
        resources.get("GPU", 0.0),
        entry.get("NodeManagerHostname", ""),
        entry.get("NodeManagerPort", 0),
    )


def unreachable(found: Sequence[Node], seconds: float = CONNECT_SECONDS) -> dict[str, str]:
    """By id, why nodes cannot be connected to; all are tried at once."""
    pings = {node.id: Ping(node) for node in found if node.port}
    deadline = time.monotonic() + seconds
    silent: dict[str, str] = {}
    while pings and time.monotonic() < deadline:
        for node_id, ping in list(pings.items()):
            outcome = ping.outcome()
            if outcome is not None:
                ping.close()
                del pings[node_id]
                if outcome:
                    silent[node_id] = f"no connection to {ping.target} ({outcome})"
        if pings:
            time.sleep(PING_POLL_SECONDS)
    for node_id, ping in pings.items():
        ping.close()
        silent[node_id] = f"no connection to {ping.target} (timeout after {seconds:g} s)"
    return silent


class Ping:
    """A connection attempt to a node's raylet that never blocks."""

    def __init__(self, node: Node) -> None:
        self.target = f"{node.address}:{node.port}"
        family = socket.AF_INET6 if ":" in node.address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.settimeout(0.0)  # never waits
        self._peer = (node.address, node.port)
        self.code = self._socket.connect_ex(self._peer)

    def outcome(self) -> str | None:
        """None: not known yet; empty: connected; else the error."""
        if self.code in PENDING:
            self.code = self._socket.connect_ex(self._peer)
        if self.code in PENDING:
            return None
        if self.code in CONNECTED:
            return ""
        return os.strerror(self.code)

    @property
    def is_gone(self) -> bool:
        return self.code in GONE

    def close(self) -> None:
        self._socket.close()


@dataclass(frozen=True)
class Change:
    """A node that was lost or came back."""

    node: Node
    is_lost: bool
    reason: str = ""


class NodeMonitor:
    """Pings every node, and reports which fell silent and which came back. No call blocks."""

    def __init__(self, ray: Any, timeout: float, clock: Clock | None = None) -> None:
        self._ray = ray
        self._timeout = timeout
        self._clock = clock or SystemClock()
        self._nodes: dict[str, Node] = {}
        self._last_sign: dict[str, float] = {}  # by id
        self._pings: dict[str, tuple[Ping, float]] = {}  # by id; and when it was sent
        self._silent: set[str] = set()
        self._next_ping = float("-inf")

    @property
    def usable(self) -> list[Node]:
        return [node for node in self._nodes.values() if node.id not in self._silent]

    @property
    def silent(self) -> set[str]:
        """Ids of nodes that Ray counts as alive, but that do not respond."""
        return self._silent & self._nodes.keys()

    def node_at(self, address: str) -> Node | None:
        return next((node for node in self._nodes.values() if node.address == address), None)

    def node(self, node_id: str) -> Node | None:
        return self._nodes.get(node_id)

    def update(self) -> list[Change]:
        """The changes since the last call; call it often."""
        changes: list[Change] = []
        now = self._clock.monotonic()
        if now >= self._next_ping:
            self._next_ping = now + PING_SECONDS
            changes += self._refresh(now)
            for node in self._nodes.values():
                if node.port and node.id not in self._pings:
                    self._pings[node.id] = (Ping(node), now)
        changes += self._collect(now)
        return changes

    def close(self) -> None:
        for ping, _ in self._pings.values():
            ping.close()
        self._pings.clear()

    def _refresh(self, now: float) -> list[Change]:
        """Reads from Ray which nodes are new and which are dead."""
        found = {node.id: node for node in alive_nodes(self._ray)}
        dead = [self._nodes[key] for key in self._nodes.keys() - found.keys() if key not in self._silent]
        for key in self._nodes.keys() - found.keys():
            self._silent.discard(key)
            if key in self._pings:
                self._pings.pop(key)[0].close()
        for key in found.keys() - self._nodes.keys():
            self._last_sign[key] = now
        self._nodes = found
        return [Change(node, is_lost=True, reason="Ray has lost it") for node in dead]

    def _collect(self, now: float) -> list[Change]:
        changes = []
        for key, (ping, sent_at) in list(self._pings.items()):
            outcome = ping.outcome()
            if outcome is None and now - sent_at < STALE_SECONDS:
                continue
            del self._pings[key]
            ping.close()
            if outcome == "":
                self._last_sign[key] = now
                if key in self._silent:
                    self._silent.discard(key)
                    changes.append(Change(self._nodes[key], is_lost=False))
                continue
            silence = now - self._last_sign[key]
            if key not in self._silent and (ping.is_gone or silence > self._timeout):
                self._silent.add(key)
                reason = outcome if outcome and ping.is_gone else f"no response for {silence:.0f} s"
                changes.append(Change(self._nodes[key], is_lost=True, reason=reason))
        return changes
