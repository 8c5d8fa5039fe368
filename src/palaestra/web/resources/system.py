"""The machine and the daemon: cores, memory, slots, disk, executors."""

from __future__ import annotations

import os
import shutil
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypedDict

import psutil

from palaestra.core.executor import executor_names
from palaestra.runs.environment import describe_hardware
from palaestra.web.endpoints import Call, Endpoint

if TYPE_CHECKING:
    from palaestra.web.context import AppContext

RAY = "ray"
RAY_VARIABLE = "RAY_ADDRESS"


class Amount(TypedDict):
    cpus: int
    gpus: int
    memory: int  # MB


class Slots(Amount):
    used: Amount


class Memory(TypedDict):
    total: int
    available: int


class Load(TypedDict):
    load: list[float]
    memory: Memory
    slots: Slots
    queued: int
    queue_limit: int
    running: int


class Disk(TypedDict):
    path: str
    total: int | None
    free: int | None


class RaySetup(TypedDict):
    configured: bool
    address: str | None


class System(Load):
    version: str
    pid: int
    is_healthy: bool
    boot: str
    started_at: float
    cores: int
    cpu: str
    gpus: list[str]
    disk: Disk
    ray: RaySetup
    executors: list[str]
    kinds: list[str]
    runs_root: str


def describe_load(context: AppContext) -> Load:
    """Returns the values that change from second to second."""
    memory, slots = psutil.virtual_memory(), context.daemon.slots()
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


def show_system(call: Call) -> System:
    daemon = call.context.daemon
    hardware = _hardware()
    return {
        "version": version("palaestra"),
        "pid": os.getpid(),
        "is_healthy": daemon.is_healthy,
        "boot": call.context.run_facts.boot,
        "started_at": call.context.run_facts.started_at,
        "cores": hardware["usable_threads"],
        "cpu": hardware["cpu"],
        "gpus": hardware["gpus"],
        **describe_load(call.context),
        "disk": _disk(str(daemon.root)),
        "ray": {
            "configured": RAY in executor_names() and find_spec(RAY) is not None,
            "address": os.environ.get(RAY_VARIABLE) or None,
        },
        "executors": executor_names(),
        "kinds": daemon.kinds.names(),
        "runs_root": str(daemon.root),
    }


@cache
def _hardware() -> dict[str, Any]:
    """Cached: finding GPUs starts a process."""
    return describe_hardware()


def _disk(path: str) -> Disk:
    try:
        found = shutil.disk_usage(path)
    except OSError:
        return {"path": path, "total": None, "free": None}
    return {"path": path, "total": found.total, "free": found.free}


ROUTES = (Endpoint("GET", "/api/system", show_system, "the machine and the daemon", response=System),)
