"""Open a shell on a machine to look around.

    python -m tests.machines.shell                        # three machines, a shell on the first
    python -m tests.machines.shell head worker:loopback   # names, and how each resolves its own host name

From another terminal: the printed nsenter line of any machine. PALAESTRA_SRC=/path/src runs another worktree's code.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.machines.machines import Network, reason_unavailable


def main(names: list[str]) -> int:
    if reason := reason_unavailable():
        print(f"No machines here: {reason}.", file=sys.stderr)
        return 1
    with TemporaryDirectory(prefix="palaestra-machines-") as folder, Network(Path(folder)) as network:
        for word in names or ["head", "first", "second"]:
            name, _, host_name = word.partition(":")
            machine = network.add(name, host_name=host_name or "resolves")
            print(f"{machine.name:10} {machine.address:12} {machine.address6:12} {machine.disk}")
        for machine in network.machines:
            print(f"{machine.name}: {machine.shell_line}")
        return subprocess.run(network.machines[0].shell_line, shell=True, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
