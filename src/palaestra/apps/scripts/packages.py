"""Finds the interpreter for a script and the packages that it is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palaestra.apps.scripts.script import Script

QUERY_TIMEOUT = 20
SUBSTITUTED = {"tyro"}  # the launcher has a substitute
MIN_VERSION = (3, 8)
PARENT_LEVELS = 2  # as in launcher/run.py
QUERY = """
import importlib.util, json, sys
missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
print(json.dumps({"version": list(sys.version_info[:2]), "missing": missing}))
"""


def find_interpreter(name: str) -> str:
    """Absolute path of an interpreter; "" means this one. A virtual environment's link is not resolved."""
    if not name:
        return sys.executable
    found = shutil.which(os.path.expanduser(name))  # noqa: PTH111  a word such as `python3.10` is no path
    if found is None:
        raise NotFound(f"There is no interpreter {name}.", "Give its path: python=/path/to/venv/bin/python")
    return str(Path(found).absolute())


def missing_packages(script: Script, interpreter: str = "", additional: Sequence[str] = ()) -> list[str]:
    """Packages of the script's top-level imports, or `additional` ones, that are neither installed nor beside it."""
    named = sorted({*script.imports, *additional} - SUBSTITUTED)
    expected = [name for name in named if not _is_local_module(name, script.path)]
    if not interpreter or interpreter == sys.executable:
        return [name for name in expected if find_spec(name) is None]
    return _query_interpreter(interpreter, expected)


def _is_local_module(name: str, script: Path) -> bool:
    """Whether a module beside or above the script has the name. A folder without Python files does not count."""
    folders = script.parents[: 1 + PARENT_LEVELS]
    return any((folder / f"{name}.py").is_file() or any((folder / name).glob("*.py")) for folder in folders)


def _query_interpreter(interpreter: str, names: list[str]) -> list[str]:
    try:
        reply = subprocess.run(
            [interpreter, "-c", QUERY, *names],
            capture_output=True,
            text=True,
            timeout=QUERY_TIMEOUT,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        reported = json.loads(reply.stdout)
        version, missing = tuple(reported["version"]), [str(name) for name in reported["missing"]]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{interpreter} does not behave like a Python interpreter: {error}.", "Check the path."
        ) from error
    if version < MIN_VERSION:
        expected = ".".join(map(str, MIN_VERSION))
        raise UsageError(f"{interpreter} is Python {'.'.join(map(str, version))}.", f"Use {expected} or newer.")
    return missing


SWITCHES = {"track": "wandb", "upload_model": "huggingface_hub"}  # arguments of CleanRL's scripts
ENV_IDS = {
    "ale_py": re.compile(r"ALE/|.*NoFrameskip-v\d+$"),
    "mujoco": re.compile(
        r"(Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|InvertedDoublePendulum|InvertedPendulum|Pusher|Reacher"
        r"|Swimmer|Walker2d)-v[45]$"
    ),
    "Box2D": re.compile(r"(LunarLander|LunarLanderContinuous|BipedalWalker|BipedalWalkerHardcore|CarRacing)-v\d+$"),
    "minigrid": re.compile(r"(MiniGrid|BabyAI)-"),
}
OPENCV = "cv2"
DISTRIBUTIONS = {
    "ale_py": "ale-py",
    "Box2D": "'gymnasium[box2d]'",
    OPENCV: "opencv-python",
}  # import name -> name on the package index
ATARI_WRAPPERS = "atari_wrappers"  # the module of CleanRL and of Stable-Baselines3
OPENCV_USERS = {
    ATARI_WRAPPERS,
    "ResizeObservation",
    "GrayScaleObservation",
    "GrayscaleObservation",
    "AtariPreprocessing",
}


def implied_packages(script: Script, values: Mapping[str, Any]) -> list[str]:
    """Packages that the script imports only for these values: tracking, environment and wrappers."""
    found = {package for switch, package in SWITCHES.items() if values.get(switch) is True}
    env_id = str(values.get("env_id") or "")
    found |= {package for package, pattern in ENV_IDS.items() if pattern.match(env_id)}
    if not env_id and ATARI_WRAPPERS in script.wrappers:
        found.add("ale_py")
    if OPENCV_USERS & set(script.wrappers):
        found.add(OPENCV)
    return sorted(found)


def install_hint(packages: list[str], interpreter: str) -> str:
    names = " ".join(DISTRIBUTIONS.get(package, package) for package in packages)
    return (
        f"Install the missing packages: {interpreter} -m pip install {names}. "
        "Or use another interpreter: python=/path/to/venv/bin/python"
    )
