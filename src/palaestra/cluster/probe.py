"""Checks that a compatible cluster is at an address, in a child process, because Ray may block or abort.

`python -m palaestra.cluster.probe HOST:PORT [join]`, with Ray's variables in the environment: a line of JSON on stdout.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import Address, read_address
from palaestra.cluster.ray_runtime import load_ray, on_loopback
from palaestra.core.errors import RunFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 24.0  # with CONNECT_SECONDS less than 30 together
RAYLET_WAIT = "RAY_gcs_server_request_timeout_seconds"  # among others, how long Ray looks for itself on this machine
RAYLET_SECONDS = 10
JOIN = "join"
TOKEN_REFUSED = "InvalidAuthToken"  # noqa: S105  what Ray says of a wrong one


@dataclass(frozen=True)
class ProbeResult:
    ray: str = ""
    python: str = ""
    error: str = ""  # why there is no session, though the head responded


def probe(address: Address, access: Mapping[str, str], *, joins: bool = False) -> None:
    """Raises the reason why no session at `address` is possible; within 30 seconds.

    `access` holds Ray's environment variables for that address (see `token`).
    `joins`: this machine is not in the cluster yet, so no session is opened.
    """
    _connect(address)
    answer = _probe_in_child(address, access, joins=joins)
    here = ProbeResult(load_ray().__version__, platform.python_version())
    if answer.ray and (answer.ray, answer.python) != (here.ray, here.python):
        raise UsageError(
            f"The cluster at {address} runs Ray {answer.ray} on Python {answer.python}; "
            f"here it is Ray {here.ray} on Python {here.python}.",
            "Both must be the same on every machine.",
        )
    if answer.error:
        raise RunFailed(
            f"No session with the cluster at {address}: {answer.error}",
            f"Does this machine belong to it? Join with: palaestra worker --address {address} --cpus 0",
        )


def _connect(address: Address) -> None:
    try:
        socket.create_connection((address.host, address.port), CONNECT_SECONDS).close()
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise RunFailed(
            f"No cluster can be reached at {address}: {reason}.",
            "Is its head running? 'palaestra worker --head' starts one and prints its address.",
        ) from error


def _probe_in_child(address: Address, access: Mapping[str, str], *, joins: bool) -> ProbeResult:
    arguments = [sys.executable, "-m", "palaestra.cluster.probe", str(address), *([JOIN] if joins else [])]
    variables = {**os.environ, **access, RAYLET_WAIT: str(RAYLET_SECONDS)}
    try:
        told = subprocess.run(
            arguments, env=variables, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
        said, received = told.stdout, told.stderr
    except subprocess.TimeoutExpired as late:
        said, received = "", (late.stderr or b"").decode(errors="replace")
    if TOKEN_REFUSED in received:
        raise UsageError(
            f"The cluster at {address} does not accept the token of this machine (or its lack of one).",
            "Copy the head's ~/.ray/auth_token here, or set RAY_AUTH_TOKEN_PATH; see docs/cluster.md.",
        )
    try:
        return ProbeResult(**json.loads(said.strip().rpartition("\n")[2]))
    except (ValueError, TypeError):
        raise RunFailed(
            f"{address} did not respond as a Ray cluster within {ANSWER_SECONDS:.0f} s.",
            "Is it the port that the head of the cluster printed (6379 unless told otherwise)?",
        ) from None


def inspect_cluster(address: Address, *, joins: bool) -> ProbeResult:
    """In the child: compares versions first, then opens a session for a moment."""
    ray = load_ray()
    usage: Any = import_module("ray._common.usage.usage_lib")
    metadata = usage.get_cluster_metadata(ray._raylet.GcsClient(address=str(address)))
    answer = ProbeResult(metadata["ray_version"], metadata["python_version"])
    if joins or (answer.ray, answer.python) != (ray.__version__, platform.python_version()):
        return answer
    try:
        ray.init(address=str(address), log_to_driver=False, configure_logging=False)
    except (OSError, RuntimeError, ValueError) as error:
        return ProbeResult(answer.ray, answer.python, str(error).strip().partition("\n")[0])
    ray.shutdown()
    return answer


def main(arguments: Sequence[str]) -> int:
    address = read_address(arguments[0])
    load_ray()
    with on_loopback():
        answer = inspect_cluster(address, joins=JOIN in arguments[1:])
    print(json.dumps(asdict(answer)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
