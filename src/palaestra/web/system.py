"""The machine and the daemon: cores, memory, slots, disk, who places runs."""

from __future__ import annotations

import os
import shutil
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import psutil

from palaestra import plugins
from palaestra.daemon.door import EXECUTORS, LOCAL
from palaestra.runs.environment import describe_hardware
from palaestra.web.route import Call, Endpoint

if TYPE_CHECKING:
    from palaestra.web.house import House

RAY = "ray"
RAY_VARIABLE = "RAY_ADDRESS"


def describe_load(house: House) -> dict[str, Any]:
    """The part that changes from second to second."""
    memory, slots = psutil.virtual_memory(), house.daemon.slots()
    return {
        "load": list(os.getloadavg()),
        "memory": {"total": memory.total, "available": memory.available},
        "slots": {
            "cpus": slots.machine.cpus,
            "gpus": slots.machine.gpus,
            "memory": slots.machine.memory_mb,
            "used": {"cpus": slots.used.cpus, "gpus": slots.used.gpus, "memory": slots.used.memory_mb},
        },
        "queued": slots.waiting,
        "queue_limit": slots.queue_limit,
        "running": slots.running,
    }


def show_system(call: Call) -> dict[str, Any]:
    daemon = call.house.daemon
    hardware = _hardware()
    return {
        "version": version("palaestra"),
        "pid": os.getpid(),
        "is_well": daemon.is_well,
        "boot": call.house.book.boot,
        "started_at": call.house.book.started_at,
        "cores": hardware["usable_threads"],
        "cpu": hardware["cpu"],
        "gpus": hardware["gpus"],
        **describe_load(call.house),
        "disk": _disk(str(daemon.root)),
        "ray": {
            "configured": RAY in plugins.names(EXECUTORS) and find_spec(RAY) is not None,
            "address": os.environ.get(RAY_VARIABLE) or None,
        },
        "executors": sorted({LOCAL, *plugins.names(EXECUTORS)}),
        "kinds": daemon.kinds.names(),
        "runs_root": str(daemon.root),
    }


@cache
def _hardware() -> dict[str, Any]:
    """Asked once: finding graphics cards starts a program."""
    return describe_hardware()


def _disk(path: str) -> dict[str, Any]:
    try:
        found = shutil.disk_usage(path)
    except OSError:
        return {"path": path, "total": None, "free": None}
    return {"path": path, "total": found.total, "free": found.free}


COUNT = {"type": "integer"}
SYSTEM_SCHEMA = {
    "type": "object",
    "required": ["version", "pid", "started_at", "cores", "memory", "gpus", "slots", "queued", "running", "disk"],
    "properties": {
        "version": {"type": "string"},
        "pid": COUNT,
        "is_well": {"type": "boolean"},
        "boot": {"type": "string"},
        "started_at": {"type": "number"},
        "cores": COUNT,
        "cpu": {"type": "string"},
        "load": {"type": "array", "items": {"type": "number"}},
        "memory": {"type": "object", "properties": {"total": COUNT, "available": COUNT}},
        "gpus": {"type": "array", "items": {"type": "string"}},
        "slots": {"type": "object"},
        "queued": COUNT,
        "queue_limit": COUNT,
        "running": COUNT,
        "disk": {"type": "object"},
        "ray": {"type": "object"},
        "executors": {"type": "array", "items": {"type": "string"}},
        "kinds": {"type": "array", "items": {"type": "string"}},
        "runs_root": {"type": "string"},
    },
}
ROUTES = (Endpoint("GET", "/api/system", show_system, "the machine and the daemon", answer=SYSTEM_SCHEMA),)
