"""A Ray cluster of several "machines" on this one: each a raylet of its own, at its own loopback address.

They have no shared disk (`PALAESTRA_OWN_DISK`), and one is lost by kill -9 of everything that belongs to it.
"""

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

START_SECONDS = 120
NAME = "PALAESTRA_TEST_MACHINE"


class LoopbackCluster:
    def __init__(self, folder, name):
        self.folder = Path(folder)
        self.name = name
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        token = self.folder / "token"
        token.write_text("a" * 64)
        self.variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
        self._nodes = {}
        self.start("head", 1, cpus=0)

    def start(self, machine, number, cpus):
        """Waits until it has joined; `number` is the last part of its address."""
        words = [f"--address={self.address}"]
        if machine == "head":
            words = ["--head", f"--port={self.address.rpartition(':')[2]}", "--include-dashboard=false"]
        home = self.folder / f"r{number}"  # short: Ray's sockets lie deep below it
        home.mkdir()
        log = self.folder / f"{machine}.log"
        own = {NAME: f"{self.name}-{machine}", "TMPDIR": str(home), "PALAESTRA_OWN_DISK": "1"}
        with log.open("wb") as output:
            self._nodes[machine] = subprocess.Popen(
                [sys.executable, "-m", "palaestra.cluster.node", *words, f"--node-ip-address=127.0.0.{number}",
                 f"--num-cpus={cpus}", f"--temp-dir={home}", "--disable-usage-stats", "--block"],
                stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
                env={**os.environ, **self.variables, **own, "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"},
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while "Ray runtime started" not in log.read_text(errors="replace"):
            assert self._nodes[machine].poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < deadline, log.read_text(errors="replace")
            time.sleep(0.1)

    def processes(self, machine):
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get(NAME) == f"{self.name}-{machine}":
                    found.append(process)
        return found

    def kill(self, machine):
        """As when somebody pulls the plug: nobody of it says a last word."""
        for _ in range(3):  # one may be starting another just now
            for process in self.processes(machine):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        node = self._nodes.pop(machine, None)
        if node is not None:
            node.stdin.close()
            node.wait()

    def close(self):
        for machine in [*self._nodes][::-1]:
            self.kill(machine)
