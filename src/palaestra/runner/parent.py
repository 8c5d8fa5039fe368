"""No rank outlives whoever started it: a killed launcher must not leave trainers behind."""

from __future__ import annotations

import os
import signal
import socket

from palaestra.core import child_process

LAUNCHER = "PALAESTRA_LAUNCHER_PID"  # set by ours; torchrun does not say who it is
CONNECT_SECONDS = 2.0


def die_with_launcher() -> None:
    """Ours or torchrun. Where the kernel cannot do it, the collectives' time-out remains.

    To be called before anything that takes long is imported: a launcher that ends earlier must be noticed as well.
    """
    launcher = os.environ.get(LAUNCHER)
    child_process.die_with_parent(None if launcher is None else int(launcher))
    if launcher is None and _has_torchrun_ended():
        os.kill(os.getpid(), signal.SIGKILL)


def _has_torchrun_ended() -> bool:
    """It listens before it starts a rank. PyTorch would try for minutes to reach one that was killed."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return False
    try:
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        socket.create_connection(address, CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except (OSError, KeyError, ValueError):  # a slow network, or variables that are refused elsewhere
        return False
    return False
