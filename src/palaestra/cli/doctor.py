"""`palaestra doctor`: what this machine has, what is missing, and what to do about it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.cli.output import print_json, print_table
from palaestra.config.recipes.registry import EXTRA_MODULES, is_installed
from palaestra.core.byte_counts import format_bytes
from palaestra.daemon.settings import DaemonDirectory
from palaestra.runs.disk_use import measure_disk_use
from palaestra.runs.store import RunStore, runs_root

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from pathlib import Path

    from palaestra.cli.parser import Parser
    from palaestra.runs.disk_use import DiskUse

PACKAGES = ("torch", "gymnasium", "numpy", "safetensors", "tensorboard")
LOW_DISK = 1 << 30  # bytes
LARGE_RUN = 1 << 30  # bytes: ten times what an hour of the fastest training leaves
FSYNC_COUNT = 5
SLOW_FSYNC = 0.05  # seconds


@dataclass(frozen=True)
class Finding:
    what: str
    found: str
    fine: bool = True
    advice: str = ""


def add_arguments(parser: Parser) -> None:
    parser.add_flag("--json", action="store_true", help="print a JSON list on stdout")


def run(arguments: Namespace) -> int:
    findings = [finding for examine in EXAMINATIONS for finding in examine()]
    if arguments.json:
        print_json([asdict(finding) for finding in findings])
        return 0
    rows = [("ok" if one.fine else "!", one.what, one.found, one.advice) for one in findings]
    print_table(("", "what", "found", "what to do"), rows)
    return 0


def examine_python() -> list[Finding]:
    right = sys.version_info >= (3, 11)
    return [
        Finding("python", platform.python_version(), right, "" if right else "Python 3.11 or newer is needed"),
        Finding("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
    ]


def examine_packages() -> list[Finding]:
    return [_package(name) for name in PACKAGES]


def examine_cuda() -> list[Finding]:
    """The only examination that needs torch itself."""
    import torch

    if not torch.cuda.is_available():
        return [Finding("cuda", "none", advice="not needed: small networks train faster on the CPU")]
    return [Finding("cuda", ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())))]


def examine_extras() -> list[Finding]:
    return [
        Finding(f"extra {extra}", "installed")
        if is_installed(extra)
        else Finding(f"extra {extra}", "missing", advice=f"if wanted: pip install 'palaestra[{extra}]'")
        for extra in EXTRA_MODULES
    ]


def examine_compiler() -> list[Finding]:
    found = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    return [Finding("C++ compiler", found or "none", advice="" if found else "only needed for native engines")]


def examine_rendering() -> list[Finding]:
    backend = os.environ.get("MUJOCO_GL")
    if backend:
        return [Finding("MUJOCO_GL", backend)]
    has_display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return [
        Finding("MUJOCO_GL", "not set", advice="" if has_display else "no screen here: MUJOCO_GL=egl renders MuJoCo")
    ]


def examine_runs_directory() -> list[Finding]:
    """The directory itself, or the nearest one above it that exists, since training would make it."""
    wanted = runs_root().absolute()
    place = next(path for path in (wanted, *wanted.parents) if path.exists())
    free = shutil.disk_usage(place).free
    space = Finding(
        "free disk", f"{free / 2**30:.1f} GiB", free > LOW_DISK, "" if free > LOW_DISK else "make room for checkpoints"
    )
    try:
        seconds = _fsync_seconds(place)
    except OSError as error:
        advice = "choose another place with PALAESTRA_RUNS_DIR"
        return [space, Finding("runs directory", f"{wanted}: {error.strerror or error}", fine=False, advice=advice)]
    advice = "" if seconds < SLOW_FSYNC else "slow disk: fewer checkpoints (checkpoints.save_interval)"
    return [
        space,
        Finding("runs directory", f"{wanted} (writable)"),
        Finding("fsync", f"{seconds * 1000:.2f} ms", seconds < SLOW_FSYNC, advice),
    ]


def examine_runs() -> list[Finding]:
    """What the runs take on the disk, and whether a single one takes very much."""
    store = RunStore()
    home = DaemonDirectory(store.root)
    sizes = {one.name: measure_disk_use(store.directory(one.id), home.series_directory(one.id)) for one in store.list()}
    total = Finding("runs", f"{len(sizes)}, {format_bytes(sum(use.total for use in sizes.values()))}")
    return [total, *(_large_run(name, use) for name, use in sizes.items() if use.total > LARGE_RUN)]


def _large_run(name: str, use: DiskUse) -> Finding:
    part = next(iter(use.parts))
    advice = f"palaestra runs disk {name} shows the parts; palaestra runs rm {name} removes the run"
    if part in {"metrics", "tensorboard", "curves of the daemon"}:
        advice += "; loggers.downsample=true (the default) keeps metrics small"
    return Finding(f"run {name}", f"{format_bytes(use.total)}, most of it {part}", fine=False, advice=advice)


def _package(name: str) -> Finding:
    try:
        return Finding(name, version(name))
    except PackageNotFoundError:
        return Finding(name, "missing", fine=False, advice="pip install palaestra")


def _fsync_seconds(directory: Path) -> float:
    """Median time until a small write is on the disk."""
    times = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(FSYNC_COUNT):
            file.write(b"palaestra" * 100)
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return sorted(times)[FSYNC_COUNT // 2]


EXAMINATIONS: tuple[Callable[[], list[Finding]], ...] = (
    examine_python,
    examine_packages,
    examine_cuda,
    examine_extras,
    examine_compiler,
    examine_rendering,
    examine_runs_directory,
    examine_runs,
)

COMMAND = Command(
    name="doctor",
    summary="check this machine and list what is missing",
    examples=("palaestra doctor", "palaestra doctor --json", "palaestra doctor -h"),
    add_arguments=add_arguments,
    run=run,
)
