"""`python -m palaestra.cluster.evaluation FD`: speaks with Ray, in a process of its own.

Whoever drives Ray is ended by it when the cluster goes away, waits in it when the cluster does not answer, and is given
threads, handlers and log lines by it; no training and no command line is to know that. The first line on standard
input says where Ray is, every further line is a request; what came of it goes to FD, a line each.
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


def main(lines: int, answers: int) -> int:
    start = json.loads(first_line(lines))
    die_with_parent(start["parent"])
    try:
        cluster = ClusterConfig(**start["cluster"])
        with open_ray(cluster.address, cpus=cluster.cpus, is_checked=False) as session:  # every share is
            driver = Driver(session, answers, cluster)
            driver.say({"ready": True})
            driver.run(lines)
    except PalaestraError as error:
        words = {"error": error.message, "hint": error.hint, "exit_code": error.exit_code}
        os.write(answers, json.dumps(words).encode() + b"\n")
        return error.exit_code
    return 0


def first_line(lines: int) -> bytes:
    """Byte by byte: what follows is for the driver, which listens to the pipe and to no buffer."""
    text = b""
    while not text.endswith(b"\n") and (byte := os.read(lines, 1)):
        text += byte
    return text


if __name__ == "__main__":
    sys.exit(main(sys.stdin.fileno(), int(sys.argv[1])))
