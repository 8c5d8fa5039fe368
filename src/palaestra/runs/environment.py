"""`environment.json`: on what a run was made, so that a result can be understood years later."""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


SUFFIXES = (".py", ".so", ".pyd")
DIGITS = 32  # 128 bits of a sha256: enough against accidents, and half of what travels
COMPARED = ("palaestra", "torch", "numpy", "gymnasium", "mujoco", "ale-py", "Box2D")  # packages that decide results
PACKAGE = Path(__file__).resolve().parents[1]

FileHashes = dict[str, str]  # file, relative to the folder of its package: hash


@dataclass(frozen=True)
class CodeIdentity:
    """Small enough for every request; two of them are equal exactly when the same code computes."""

    python: str  # 3.11: another patch level computes the same
    packages: dict[str, str]  # versions of packages that decide results
    package: str  # see `package_hash`
    modules: dict[str, str] = field(default_factory=dict)  # the user's, see `modules_hash`; absent: not found


def code_identity(modules: Iterable[str] = ()) -> CodeIdentity:
    """Of this process: its Python, its packages, Palaestra, and the user's `modules` that a run imports."""
    versions = {name: version for name, version in package_versions().items() if name in COMPARED}
    own = {name: found for name in sorted({top_level(each) for each in modules}) if (found := modules_hash([name]))}
    return CodeIdentity(f"{sys.version_info.major}.{sys.version_info.minor}", versions, package_hash(), own)


@cache
def package_files() -> FileHashes:
    """Every source and compiled file of the installed Palaestra; read once per process (about 20 ms)."""
    return _hash_folder(PACKAGE)


@cache
def package_hash() -> str:
    """One hash over the relative paths and bytes of all files of the installed Palaestra."""
    return combine(package_files())


def modules_hash(modules: Iterable[str]) -> str:
    """One hash over the files of these modules; empty when none of them is found. Nothing is imported."""
    return combine(module_files(modules))


def module_files(modules: Iterable[str]) -> FileHashes:
    """The files of these modules: of a package all, of a single file also the neighbours that it imports."""
    found: FileHashes = {}
    for name in sorted({top_level(each) for each in modules}):
        spec = PathFinder.find_spec(name)
        if spec is None:
            continue
        for folder in map(Path, spec.submodule_search_locations or ()):
            found.update({f"{name}/{file}": digest for file, digest in _hash_folder(folder).items()})
        if not spec.submodule_search_locations and spec.origin and Path(spec.origin).is_file():
            found.update({path.name: _hash_file(path) for path in _with_neighbours(Path(spec.origin))})
    return found


def combine(files: Mapping[str, str]) -> str:
    if not files:
        return ""
    text = "".join(f"{name}\0{files[name]}\0" for name in sorted(files))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """Names that differ, in order: files of two packages, or packages with their versions."""
    return sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))


def version_differences(here: CodeIdentity, there: CodeIdentity) -> list[str]:
    """`torch 2.9.1 (here 2.10.0)`; a package that only one of them has cannot change what the other computes."""
    found = [] if here.python == there.python else [f"Python {there.python} (here {here.python})"]
    return found + [
        f"{name} {there.packages[name]} (here {version})"
        for name, version in sorted(here.packages.items())
        if there.packages.get(name, version) != version
    ]


@dataclass(frozen=True)
class CodeDifferences:
    """What one machine has that differs from the `CodeIdentity` of another; plain types, so that it can be sent."""

    versions: tuple[str, ...]  # `torch 2.9.1 (here 2.10.0)`; "here" is the machine that compares
    package: FileHashes | None = None  # of its Palaestra; None: the same
    modules: dict[str, FileHashes] = field(default_factory=dict)  # by module of the user that differs

    @property
    def affects_all_requests(self) -> bool:
        """Whether more than the user's modules differ."""
        return bool(self.versions) or self.package is not None


@cache
def code_of_process(modules: tuple[str, ...]) -> CodeIdentity:
    """Read once per process: imported code stays the same when its files change."""
    return code_identity(modules)


def compare_code(expected: CodeIdentity) -> CodeDifferences | None:
    """What this machine has that differs from `expected`; None: nothing. `describe_differences` reads it there."""
    own = code_of_process(tuple(expected.modules))
    modules = {name: module_files([name]) for name, found in expected.modules.items() if own.modules.get(name) != found}
    versions = tuple(version_differences(expected, own))
    package = package_files() if own.package != expected.package else None
    if not versions and package is None and not modules:
        return None
    return CodeDifferences(versions, package, modules)


def describe_differences(code: CodeDifferences) -> list[str]:
    """On the machine whose code was expected: versions, and the files that differ, by name."""
    found = list(code.versions)
    if code.package is not None:
        found += [f"palaestra/{name}" for name in differences(package_files(), code.package)]
    for module, files in code.modules.items():
        found += differences(module_files([module]), files) if files else [f"{module} (not found there)"]
    return found


def shorten(names: list[str], count: int = 5) -> str:
    """`a.py, b.py and 3 more`."""
    hidden = len(names) - count
    return ", ".join(names[:count]) + (f" and {hidden} more" if hidden > 0 else "")


def top_level(module: str) -> str:
    """`my_envs` of `my_envs.maze:Maze-v0`."""
    return module.partition(":")[0].partition(".")[0]


def _hash_folder(folder: Path) -> FileHashes:
    """With plain strings: a `Path` for each of 800 files takes as long as hashing them."""
    found: FileHashes = {}
    start = len(str(folder)) + 1
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            if name.endswith(SUFFIXES):
                path = f"{place}{os.sep}{name}"
                found[path[start:].replace(os.sep, "/")] = _hash_file(path)
    return found


def _hash_file(path: str | Path) -> str:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  see `_hash_folder`
        return hashlib.sha256(file.read()).hexdigest()[:DIGITS]


def _with_neighbours(first: Path) -> set[Path]:
    """A single-file module, and those files beside it that it imports, directly or through another of them."""
    found: set[Path] = set()
    waiting = [first]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix == ".py":
            beside = (path.with_name(f"{name}.py") for name in _imported_names(path))
            waiting.extend(each for each in beside if each.is_file())
    return found


def _imported_names(path: Path) -> set[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # importing it will say so
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(top_level(each.name) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(top_level(node.module))
    return names
