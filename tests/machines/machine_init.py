"""First process (PID 1) of a machine: gives it its own host name, disk and temporary folders, then waits for processes.

Started by `machines.py` inside fresh network, mount, UTS, IPC and PID namespaces. Only the standard library, and no
package of ours: a machine must start with any code.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

HOME = "/home/machine"
OWN_TMPFS = ("/tmp", "/var/tmp", "/run", "/dev/shm")


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def bind(source: str, target: str) -> None:
    mount("--bind", source, target)


def build(machine: dict) -> None:
    """Order matters: what is bound may lie under /tmp, which gets covered; the root turns read-only at the end."""
    socket.sethostname(machine["name"])
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "sysfs", "sysfs", "/sys")  # shows the interfaces of this network namespace, not the host's
    mount("-t", "tmpfs", "-o", "mode=755", "home", "/home")
    Path(HOME).mkdir()
    if machine["disk_megabytes"]:
        mount("-t", "tmpfs", "-o", f"mode=700,size={machine['disk_megabytes']}m", "disk", HOME)
    else:
        bind(machine["disk"], HOME)
    for source, target in machine["binds"]:
        bind(source, target)
    for folder in OWN_TMPFS:
        mount("-t", "tmpfs", "-o", "mode=1777", "own", folder)
    mount("-o", "remount,bind,ro", "/")


def main() -> None:
    build(json.loads(sys.argv[1]))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    print("ready", flush=True)
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            continue


if __name__ == "__main__":
    main()
