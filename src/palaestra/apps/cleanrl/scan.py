"""`palaestra cleanrl scan CHECKOUT`: every script there, told by its text alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.apps.cleanrl.interpreters import absent_packages
from palaestra.apps.cleanrl.script import NO_ARGUMENTS, Script, read_script
from palaestra.contracts.errors import NotFound, PalaestraError

if TYPE_CHECKING:
    from pathlib import Path

SKIPPED = {"tests", "test", "docs", "benchmark", "cleanrl_utils", "__pycache__", "site-packages", "node_modules"}
MAX_SCRIPTS = 2_000
ACTIONS = {"Box": "continuous", "Discrete": "discrete", "MultiDiscrete": "discrete"}
ACTIONS_OF = {
    **dict.fromkeys(("ppo", "dqn", "c51", "pqn", "qdagger", "rainbow", "ppg"), "discrete"),
    **dict.fromkeys(("ddpg", "td3", "sac"), "continuous"),
}


@dataclass(frozen=True)
class ScannedScript:
    path: str  # relative to the checkout
    algorithm: str
    actions: str  # "discrete", "continuous" or "any", as far as names and classes tell
    style: str
    arguments: int
    saves: bool  # has a switch to save its own model; checkpoints of ours need none
    needs: tuple[str, ...]  # packages that this interpreter lacks
    problem: str = ""


def scan(checkout: Path) -> list[ScannedScript]:
    """Scripts that read arguments, by path; files that are not Python are listed with what is wrong."""
    checkout = checkout.expanduser().absolute()
    if not checkout.is_dir():
        raise NotFound(f"There is no directory {checkout}.", "Give the folder of a CleanRL checkout.")
    found = [_scanned(path, checkout) for path in _candidates(checkout)]
    return [one for one in found if one is not None]


def _candidates(checkout: Path) -> list[Path]:
    paths = sorted(checkout.rglob("*.py"))
    fitting = [path for path in paths if not _is_skipped(path.relative_to(checkout).parts[:-1])]
    return fitting[:MAX_SCRIPTS]


def _is_skipped(folders: tuple[str, ...]) -> bool:
    return any(folder in SKIPPED or folder.startswith(".") for folder in folders)


def _scanned(path: Path, checkout: Path) -> ScannedScript | None:
    name = path.relative_to(checkout).as_posix()
    try:
        script = read_script(path)
    except PalaestraError as error:
        return ScannedScript(name, "", "", "", 0, saves=False, needs=(), problem=error.message)
    names = {argument.name for argument in script.arguments}
    if script.style == NO_ARGUMENTS or "env_id" not in names:
        return None
    return ScannedScript(
        path=name,
        algorithm=path.stem.partition("_")[0].upper(),
        actions=_actions(script),
        style=script.style,
        arguments=len(script.asked),
        saves="save_model" in names,
        needs=tuple(absent_packages(script)),
    )


def _actions(script: Script) -> str:
    """What the script itself insists on, else what its name lets expect."""
    asked = {ACTIONS[space] for space in script.action_spaces if space in ACTIONS}
    if len(asked) == 1:
        return asked.pop()
    if "continuous" in script.path.stem:
        return "continuous"
    return ACTIONS_OF.get(script.path.stem.partition("_")[0], "any")
