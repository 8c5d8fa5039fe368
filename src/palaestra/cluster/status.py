"""The state of a cluster, node by node, for `palaestra cluster` and the page.

`python -m palaestra.cluster.status HOST:PORT` runs in a process of its own, because Ray may block or abort.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from palaestra.cluster.connection import open_ray
from palaestra.cluster.nodes import node_of, query_nodes
from palaestra.core.errors import PalaestraError, RunFailed
from palaestra.runs.environment import (
    CodeDifferences,
    CodeIdentity,
    code_of_process,
    compare_code,
    describe_differences,
)

if TYPE_CHECKING:
    from palaestra.cluster.nodes import Node, NodeResponses

STATUS_SECONDS = 150.0  # probe, session, and the first answer of a slow node
UP, SILENT, DEAD = "up", "silent", "dead"
SAME, DIFFERENT, UNKNOWN = "same", "different", "unknown"


@dataclass(frozen=True)
class NodeStatus:
    host: str
    address: str
    state: str  # up; silent: alive for Ray, but it did not respond; dead: lost
    is_head: bool = False
    cpus: float = 0.0
    cpus_used: float = 0.0
    gpus: float = 0.0
    gpus_used: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)  # of Python, Ray and Palaestra; empty: no response
    code: str = UNKNOWN  # same, different, unknown
    differences: list[str] = field(default_factory=list)  # versions and files
    last_sign_seconds: float | None = None  # since its last response; None: it never responded
    reason: str = ""  # why it is silent or dead


@dataclass(frozen=True)
class ClusterJob:
    """A program that is connected to the cluster."""

    address: str  # of the machine that it runs on
    pid: int
    command: str


@dataclass(frozen=True)
class ClusterStatus:
    address: str
    nodes: list[NodeStatus]
    jobs: list[ClusterJob]


def describe_node(code: dict[str, Any]) -> dict[str, Any]:
    """Runs on a node."""
    ray: Any = import_module("ray")
    found = compare_code(CodeIdentity(**code))
    differences = None if found is None else asdict(found)
    versions = {"python": platform.python_version(), "ray": ray.__version__, "palaestra": version("palaestra")}
    return {
        "host": platform.node(),
        "versions": versions,
        "code_differences": differences,
    }


def cluster_status(ray: Any, address: str) -> ClusterStatus:
    """The status of the cluster of an open session."""
    responses = query_nodes(ray, describe_node, asdict(code_of_process(())))
    state: Any = import_module("ray._private.state")
    free = state.available_resources_per_node()
    entries = ray.nodes()
    alive = [_alive(entry, responses, free, address) for entry in entries if entry["Alive"]]
    addresses = {node.address for node in alive}
    dead = {entry["NodeManagerAddress"]: entry for entry in entries if not entry["Alive"]}  # the last one at each
    lost = [_dead(entry) for place, entry in dead.items() if place not in addresses]
    own = (ray.util.get_node_ip_address(), os.getpid())
    jobs = [
        ClusterJob(job["DriverIPAddress"], job["DriverPid"], job["Entrypoint"])
        for job in state.jobs()
        if not job["IsDead"] and (job["DriverIPAddress"], job["DriverPid"]) != own
    ]
    return ClusterStatus(address, sorted(alive, key=lambda node: not node.is_head) + lost, jobs)


def _alive(entry: dict[str, Any], responses: NodeResponses, free: dict[str, dict[str, float]], head: str) -> NodeStatus:
    node = node_of(entry)
    unused = free.get(node.id, {})
    known: dict[str, Any] = {
        "host": node.host,
        "address": node.address,
        "is_head": "node:__internal_head__" in entry["Resources"] or node.address == head.rpartition(":")[0],
        "cpus": node.cpus,
        "cpus_used": _used(node.cpus, unused.get("CPU", 0.0), free, node),
        "gpus": node.gpus,
        "gpus_used": _used(node.gpus, unused.get("GPU", 0.0), free, node),
    }
    answer = responses.by_node.get(node.id)
    if answer is None:
        reason = next((one.reason for one in responses.excluded if one.node.id == node.id), "it has just joined")
        return NodeStatus(state=SILENT, reason=reason, **known)
    different = answer["code_differences"]
    names = [] if different is None else describe_differences(CodeDifferences(**different))
    sign = max(0.0, time.monotonic() - responses.responded_at[node.id])
    return NodeStatus(
        state=UP,
        versions=answer["versions"],
        code=SAME if different is None else DIFFERENT,
        differences=names,
        last_sign_seconds=round(sign, 1),
        **known,
    )


def _used(total: float, unused: float, free: dict[str, dict[str, float]], node: Node) -> float:
    """The used amount; a node without figures counts as idle."""
    return total - unused if node.id in free else 0.0


def _dead(entry: dict[str, Any]) -> NodeStatus:
    reason = str(entry.get("DeathReasonMessage", "")).strip().partition("\n")[0]
    return NodeStatus(entry.get("NodeManagerHostname", ""), entry["NodeManagerAddress"], DEAD, reason=reason)


def read_status(address: str) -> ClusterStatus:
    """Reads the status in a child process, and raises its error."""
    command = [sys.executable, "-m", "palaestra.cluster.status", address]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=STATUS_SECONDS, check=False)
        found = json.loads(done.stdout.strip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        raise RunFailed(f"The cluster at {address} did not answer within {STATUS_SECONDS:.0f} s.") from None
    except ValueError:
        raise RunFailed(f"The process that asked the cluster at {address} ended with {done.returncode}.") from None
    if "error" in found:
        error = RunFailed(found["error"], found["hint"])
        error.exit_code = found["exit_code"]
        raise error
    nodes = [NodeStatus(**node) for node in found["nodes"]]
    return ClusterStatus(found["address"], nodes, [ClusterJob(**job) for job in found["jobs"]])


def main(address: str) -> int:
    try:
        with open_ray(address, is_checked=False) as session:
            print(json.dumps(asdict(cluster_status(session.ray, address))))
    except PalaestraError as error:
        print(json.dumps({"error": error.message, "hint": error.hint, "exit_code": error.exit_code}))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
