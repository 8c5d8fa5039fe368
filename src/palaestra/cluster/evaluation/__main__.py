"""`python -m palaestra.cluster.evaluation FD`: the Ray driver, in a process of its own.

Ray ends its driver when the cluster goes away, blocks it when the cluster does not respond, and adds threads, signal
handlers and log lines to it; this process keeps that away from trainings and commands. The first line of standard input
is the cluster, every further line a request; messages go to FD, one per line.
"""

from __future__ import annotations

import json
import os
import sys

from palaestra.cluster.connection import open_ray
from palaestra.cluster.evaluation.driver import Driver
from palaestra.config.distributed import ClusterConfig
from palaestra.core.child_process import die_with_parent
from palaestra.core.errors import PalaestraError


def main(lines: int, responses: int) -> int:
    start = json.loads(first_line(lines))
    die_with_parent(start["parent"])
    try:
        cluster = ClusterConfig(**start["cluster"])
        with open_ray(cluster.address, cpus=cluster.cpus, is_checked=False) as session:  # every share is checked
            driver = Driver(session, responses, cluster)
            driver.send({"ready": True})
            driver.run(lines)
    except PalaestraError as error:
        failure = {"error": error.message, "hint": error.hint, "exit_code": error.exit_code}
        os.write(responses, json.dumps(failure).encode() + b"\n")
        return error.exit_code
    return 0


def first_line(lines: int) -> bytes:
    """Reads byte by byte: the driver reads the rest from the pipe, not from a buffer."""
    text = b""
    while not text.endswith(b"\n") and (byte := os.read(lines, 1)):
        text += byte
    return text


if __name__ == "__main__":
    sys.exit(main(sys.stdin.fileno(), int(sys.argv[1])))
