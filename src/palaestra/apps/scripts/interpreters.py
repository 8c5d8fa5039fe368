"""The interpreter that runs a script, and what it lacks for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.apps.scripts.script import Script

ASK_SECONDS = 20
STOOD_IN = {"tyro"}  # the launcher has a small one of its own
OLDEST = (3, 8)
LEVELS_ABOVE = 2  # as in launcher/running.py
QUESTION = """
import importlib.util, json, sys
lacking = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
print(json.dumps({"version": list(sys.version_info[:2]), "lacking": lacking}))
"""


def find_interpreter(asked: str) -> str:
    """An absolute path; empty means ours. A virtual environment's link is kept, since it names the environment."""
    if not asked:
        return sys.executable
    found = shutil.which(os.path.expanduser(asked))  # noqa: PTH111  a word such as `python3.10` is no path
    if found is None:
        raise NotFound(f"There is no interpreter {asked}.", "Give its path: python=/path/to/venv/bin/python")
    return str(Path(found).absolute())


def absent_packages(script: Script, interpreter: str = "", further: Sequence[str] = ()) -> list[str]:
    """Packages that the script imports first thing, or `further` ones, that are neither there nor beside it."""
    named = sorted({*script.imports, *further} - STOOD_IN)
    wanted = [name for name in named if not _is_beside(name, script.path)]
    if not interpreter or interpreter == sys.executable:
        return [name for name in wanted if find_spec(name) is None]
    return _ask(interpreter, wanted)


def _is_beside(name: str, script: Path) -> bool:
    """Or above it, where the launcher looks too. A folder without code, such as W&B's, is no package."""
    folders = script.parents[: 1 + LEVELS_ABOVE]
    return any((folder / f"{name}.py").is_file() or any((folder / name).glob("*.py")) for folder in folders)


def _ask(interpreter: str, names: list[str]) -> list[str]:
    try:
        answer = subprocess.run(
            [interpreter, "-c", QUESTION, *names],
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        told = json.loads(answer.stdout)
        version, lacking = tuple(told["version"]), [str(name) for name in told["lacking"]]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{interpreter} does not answer as Python does: {error}.", "Is it an interpreter?") from error
    if version < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise UsageError(f"{interpreter} is Python {'.'.join(map(str, version))}.", f"Use {wanted} or newer.")
    return lacking
