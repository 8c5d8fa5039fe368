"""`environment.json`: on what a run was made, so that a result can be understood years later."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

import psutil

PACKAGES = ("palaestra", "torch", "numpy", "gymnasium", "safetensors", "pydantic", "mujoco", "ale-py", "Box2D", "wandb")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID")
GIT_SECONDS = 2.0  # a repository on a sleeping network drive must not hold up a run
GPU_SECONDS = 2.0


def describe_environment() -> dict[str, Any]:
    """Versions, code, hardware and threads; no package is imported for it."""
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform_name(),
        "host": platform.node(),
        "packages": package_versions(),
        "git": describe_git(Path.cwd()),
        "hardware": describe_hardware(),
        "variables": {name: os.environ[name] for name in (*THREAD_VARIABLES, *RANK_VARIABLES) if name in os.environ},
        "argv": list(sys.argv),
        "directory": str(Path.cwd()),
    }


def platform_name() -> str:
    """As `platform.platform()`, which starts a process to learn of a processor."""
    if sys.platform != "linux" or "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return platform.platform()
    system, library = os.uname(), os.confstr("CS_GNU_LIBC_VERSION") or "libc"
    return f"{system.sysname}-{system.release}-{system.machine}-with-{library.replace(' ', '')}"


@cache
def package_versions() -> dict[str, str]:
    """Those that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = installed_version(name)
        except PackageNotFoundError:
            continue
    return found


def installed_version(name: str) -> str:
    """As `importlib.metadata.version`, which parses a package's whole description for that one line."""
    _, _, behind = (distribution(name).read_text("METADATA") or "").partition("\nVersion:")
    return behind.partition("\n")[0].strip() or version(name)


def describe_git(directory: Path) -> dict[str, Any] | None:
    """Commit of the code in `directory` and whether files were changed since; None outside of a repository."""
    answer = _output(["git", "-C", str(directory), "status", "--porcelain=v2", "--branch", "-uno"], GIT_SECONDS)
    lines = answer.splitlines()
    commits = [line.removeprefix("# branch.oid ") for line in lines if line.startswith("# branch.oid ")]
    if not commits:
        return None
    return {"commit": commits[0], "dirty": any(not line.startswith("#") for line in lines)}


def describe_hardware() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
        "usable_threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": _gpus(),
    }


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _gpus() -> list[str]:
    if shutil.which("nvidia-smi") is None:
        return []
    return _output(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"], GPU_SECONDS).splitlines()


def _output(command: list[str], seconds: float) -> str:
    """What a command printed; nothing when it is absent, fails or takes too long."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env=environment, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
