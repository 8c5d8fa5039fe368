"""Packages that a script needs for what it is told to do, beside those that it imports at its top."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palaestra.apps.scripts.script import Script

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
DISTRIBUTIONS = {"ale_py": "ale-py", "Box2D": "'gymnasium[box2d]'", OPENCV: "opencv-python"}  # by what is imported
ATARI_WRAPPERS = "atari_wrappers"  # the module of CleanRL and of Stable-Baselines3
OPENCV_USERS = {
    ATARI_WRAPPERS,
    "ResizeObservation",
    "GrayScaleObservation",
    "GrayscaleObservation",
    "AtariPreprocessing",
}


def implied_packages(script: Script, values: Mapping[str, Any]) -> list[str]:
    """By its settings (complete, as far as they are known), its environment and its wrappers."""
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
        f"Install what is missing: {interpreter} -m pip install {names}. "
        "Or name an interpreter that has it: python=/path/to/venv/bin/python"
    )
