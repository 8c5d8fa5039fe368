"""Runs two ranks inside a network namespace of its own, cuts its loopback interface on request, prints how they ended.

Started by `test_cut_connection.py` with `unshare --net`; the arguments are those of `palaestra`.
"""

import json
import os
import subprocess
import sys
import time


def start(rank: int, port: str = "29500") -> subprocess.Popen[str]:
    location = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    own = {**os.environ, **location, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, "-m", "palaestra", *sys.argv[1:]]
    return subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    ranks = [start(0), start(1)]
    sys.stdin.readline()
    subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
    cut_at = time.monotonic()
    messages = [rank.communicate()[1] for rank in ranks]
    seconds = time.monotonic() - cut_at
    print(json.dumps({"codes": [rank.returncode for rank in ranks], "messages": messages, "seconds": seconds}))


if __name__ == "__main__":
    main()
