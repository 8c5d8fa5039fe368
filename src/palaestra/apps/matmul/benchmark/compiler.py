"""Compiles C to a shared library with the system compiler; libraries are cached."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from palaestra.core.errors import RunFailed, UsageError

FLAGS = ("-O3", "-march=native", "-std=c11", "-fPIC", "-shared", "-Wall")
THREADS_FLAG = "-fopenmp"
SECONDS = 120
COMPILERS = ("cc", "gcc", "clang")


def find_compiler() -> str:
    """The compiler of $CC, else cc, gcc or clang."""
    asked = os.environ.get("CC", "").split()
    for name in (*asked[:1], *COMPILERS):
        path = shutil.which(name)
        if path:
            return path
    raise UsageError(
        "No C compiler found (tried cc, gcc and clang).",
        "Install one, for example with: apt install gcc; or set CC.",
    )


def compile_source(source: str) -> ctypes.CDLL:
    compiler = find_compiler()
    file = kernel_folder() / f"{_cache_key(source, compiler)}.so"
    if not file.exists():
        _build(source, compiler, file)
    return ctypes.CDLL(str(file))


def kernel_folder() -> Path:
    """The cache directory; only the user may write to it, since its libraries are loaded."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "palaestra" / "kernels"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise UsageError(f"Other users can write to {folder}.", "Kernels are loaded from it; run chmod 700 on it.")
    return folder


def compiler_version(compiler: str) -> str:
    output = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=SECONDS, check=False)
    return output.stdout.splitlines()[0] if output.stdout else "unknown"


def _cache_key(source: str, compiler: str) -> str:
    """A cache key of code, compiler, flags and CPU: native code of one CPU may not run on another."""
    parts = [source, compiler, compiler_version(compiler), *FLAGS, platform.machine(), _processor()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))


def _build(source: str, compiler: str, file: Path) -> None:
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        text, made = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
        text.write_text(source)
        tried = [[*FLAGS, THREADS_FLAG], list(FLAGS)]  # without OpenMP kernels have one thread
        for flags in tried:
            done = subprocess.run(
                [compiler, *flags, str(text), "-o", str(made)],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            if done.returncode == 0:
                made.replace(file)
                return
    raise RunFailed(f"{compiler} failed to compile a kernel: {done.stderr.strip()[:500]}", "Check the compiler.")
