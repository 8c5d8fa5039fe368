"""An environment of its own for every peer that wants other packages than we do."""

from __future__ import annotations

import compileall
import hashlib
import os
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

REQUIREMENTS = Path(__file__).parent
SOURCE_BUILD = REQUIREMENTS / "source_build"
REASON_LETTERS = 300


class CannotInstall(Exception):
    """With the reason, as it will stand on the page."""


def python_of(requirements: str, venvs: Path) -> Path:
    """The interpreter of that environment, made where it is missing; one that failed is not tried twice."""
    folder, wanted = venvs / requirements, fingerprint(requirements)
    done, failed = folder / ".installed", folder / ".failed"
    if not (done.exists() and done.read_text() == wanted):
        if failed.exists() and failed.read_text().startswith(wanted):
            raise CannotInstall(failed.read_text().partition("\n")[2])
        try:
            install(requirements, folder)
        except CannotInstall as reason:
            failed.write_text(f"{wanted}\n{reason}")
            raise
        done.write_text(wanted)
    return folder / "bin" / "python"


def compile_ours() -> None:
    """As pip does with whatever it installs; nobody does it for a checkout where PYTHONDONTWRITEBYTECODE is set."""
    spec = find_spec("palaestra")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        compileall.compile_dir(folder, quiet=1)


def fingerprint(requirements: str) -> str:
    files = [requirements_file(requirements), source_file(requirements)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.exists())).hexdigest()


def requirements_file(requirements: str) -> Path:
    return REQUIREMENTS / f"requirements-{requirements}.txt"


def source_file(requirements: str) -> Path:
    return REQUIREMENTS / f"source-{requirements}.txt"


def install(requirements: str, folder: Path) -> None:
    """With our pip: an environment without one is made faster. Our own constraints are not theirs."""
    print(f"Installing {requirements} into {folder} ...", file=sys.stderr, flush=True)
    venv.create(folder, clear=True, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip(python, requirements_file(requirements))
    source = source_file(requirements)
    if source.exists():  # what is built from source finds torch in its own environment and takes no other
        pip(python, source, "--no-build-isolation", "--no-deps", NO_OCEAN="1", PYTHONPATH=str(SOURCE_BUILD))


def pip(python: Path, file: Path, *options: str, **more: str) -> None:
    words = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *options, "-r", str(file)]
    ours = {"PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"}
    environment = {name: value for name, value in os.environ.items() if name not in ours} | more
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotInstall(reason_of(done.stderr))


def reason_of(errors: str) -> str:
    """The first line of pip's that names an error; what follows it are consequences."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    found = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "pip said nothing")
    return f"it cannot be installed: {found[:REASON_LETTERS]}"
