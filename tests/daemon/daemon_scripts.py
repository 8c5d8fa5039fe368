"""Workers that are small scripts, and a daemon as a program of its own that can be killed.

`python daemon_scripts.py ROOT ACKNOWLEDGED STARTS` serves ROOT and submits without end; the id of whatever was accepted
is added to ACKNOWLEDGED, and each worker adds its run's id to STARTS.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import FieldError, Prepared, RequestRefused, Resources
from palaestra.daemon.monitor_handle import is_running, read_monitor_record
from palaestra.daemon.process_tree import find_members, kill_members, send_signal
from palaestra.daemon.service import Daemon
from palaestra.daemon.settings import DaemonSettings
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config
from palaestra.runs.identity import is_run_id

MACHINE = Resources(cpus=2, gpus=2, memory_mb=1000)


class ScriptKind:
    """Runs `config["code"]`; knows nothing of status files, like a stranger's program."""

    name = "script"

    def schema(self):
        return {"type": "object", "properties": {"code": {"type": "string"}}}

    def prepare(self, request, machine, runs_root):
        unknown = sorted(set(request.config) - {"code", "gpus"})
        if unknown:
            raise RequestRefused([FieldError(key, f"No key named '{key}'.") for key in unknown])
        return Prepared(request, dict(request.config), Resources(request.nproc, request.config.get("gpus", 0)))

    def command(self, run_directory):
        return [sys.executable, "-S", "-c", read_config(RunDirectory(run_directory))["code"]]


def script(code, **fields):
    return RunRequest(kind="script", recipe="", config={"code": code}, **fields)


def settings(**changes):
    return DaemonSettings(
        **{"machine": MACHINE, "grace_seconds": 5.0, "scan_seconds": 0.2, "tick_seconds": 0.05, **changes}
    )


def open_daemon(root, **changes):
    return Daemon(root, settings(**changes), {"script": ScriptKind()})


def end_everything(root):
    """Keepers and workers of all runs there, for tests that leave some behind."""
    for path in root.iterdir() if root.is_dir() else []:
        if is_run_id(path.name) and (monitor_record := read_monitor_record(RunDirectory(path))) is not None:
            monitor = monitor_record.monitor if is_running(monitor_record.monitor) else None
            kill_members(
                lambda path=path, monitor=monitor: find_members(path.name, monitor.pid if monitor else None), 5.0
            )
            if monitor is not None:
                send_signal(monitor, signal.SIGKILL)


def end_and_remove(root):
    """A keeper that had only just begun has no note yet, and writes while its folder goes: then once more."""
    deadline = time.monotonic() + 10
    while root.is_dir():
        end_everything(root)
        try:
            shutil.rmtree(root)
        except OSError:
            if time.monotonic() > deadline:
                raise


def append(path, text):
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{text}\n".encode())
    os.close(descriptor)


def worker_code(starts, seconds):
    return (
        "import os, time\n"
        f"stream = os.open({str(starts)!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)\n"
        "os.write(stream, os.environ['PALAESTRA_RUN_ID'].encode() + b'\\n')\n"
        f"time.sleep({seconds})\n"
    )


def main(root, acknowledged, starts):
    chance = random.Random()
    with open_daemon(root) as daemon:
        print("ready", flush=True)
        while True:
            if daemon.slots().waiting < 4:
                entry = daemon.submit(script(worker_code(starts, chance.uniform(0.0, 0.1))))
                append(acknowledged, entry.id)
            else:
                time.sleep(0.01)


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
