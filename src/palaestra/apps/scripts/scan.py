"""`palaestra cleanrl scan CHECKOUT`: describes every script of a checkout from its source text alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.apps.scripts.arguments import resolve_values
from palaestra.apps.scripts.packages import implied_packages, missing_packages
from palaestra.apps.scripts.script import NO_ARGUMENTS, Script, read_script
from palaestra.core.errors import DamagedFile, NotFound, PalaestraError
from palaestra.core.worker_kind import Checkout, OfferedScript
from palaestra.runs.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

SKIPPED = {"tests", "test", "docs", "benchmark", "cleanrl_utils", "__pycache__", "site-packages", "node_modules"}
MAX_SCRIPTS = 2_000
MAX_FOLDERS = 2_000
ACTIONS = {"Box": "continuous", "Discrete": "discrete", "MultiDiscrete": "discrete"}
ACTIONS_BY_ALGORITHM = {
    **dict.fromkeys(("ppo", "dqn", "c51", "pqn", "qdagger", "rainbow", "ppg"), "discrete"),
    **dict.fromkeys(("ddpg", "td3", "sac"), "continuous"),
}


@dataclass(frozen=True)
class ScannedScript:
    path: str  # relative to the checkout
    algorithm: str
    actions: str  # "discrete", "continuous" or "any", guessed from names and classes
    style: str
    arguments: int
    saves: bool  # has CleanRL's option to save its model; Palaestra's checkpoints do not need it
    needs: tuple[str, ...]  # packages that this interpreter lacks for the script's default settings
    problem: str = ""


def scan(checkout: Path, runs_root: Path | None = None) -> list[ScannedScript]:
    """Scripts with an env_id argument, by path; unreadable files are listed with a problem.

    A checkout with scripts is remembered in `runs_root`.
    """
    checkout = checkout.expanduser().absolute()
    if not checkout.is_dir():
        raise NotFound(f"There is no directory {checkout}.", "Give the folder of a CleanRL checkout.")
    scripts = [one for path in _candidates(checkout) if (one := _scanned(path, checkout)) is not None]
    if runs_root is not None and any(not one.problem for one in scripts):
        remember_checkout(runs_root, checkout)
    return scripts


def offered_scripts(runs_root: Path) -> list[Checkout]:
    """Scripts of the remembered checkouts; checkouts without any are left out."""
    found = [Checkout(str(checkout), tuple(_offered(checkout))) for checkout in known_checkouts(runs_root)]
    return [checkout for checkout in found if checkout.scripts]


def _offered(checkout: Path) -> Iterator[OfferedScript]:
    for path in _candidates(checkout):
        one = _scanned_once(path, checkout, path.stat().st_mtime_ns)
        if one is not None and not one.problem:
            yield OfferedScript(str(path), one.path, one.algorithm, one.actions, one.needs)


@lru_cache(maxsize=4096)
def _scanned_once(path: Path, checkout: Path, changed_at: int) -> ScannedScript | None:
    """Cached until the file changes."""
    del changed_at
    return _scanned(path, checkout)


def _candidates(checkout: Path) -> list[Path]:
    """Python files in at most MAX_FOLDERS folders, in case somebody names their home directory."""
    paths: list[Path] = []
    for number, (folder, inner, files) in enumerate(os.walk(checkout)):
        inner[:] = sorted(name for name in inner if name not in SKIPPED and not name.startswith("."))
        paths += [Path(folder, name) for name in files if name.endswith(".py")]
        if number >= MAX_FOLDERS or len(paths) >= MAX_SCRIPTS:
            break
    return sorted(path for path in paths if path.is_file())[:MAX_SCRIPTS]


def _scanned(path: Path, checkout: Path) -> ScannedScript | None:
    name = path.relative_to(checkout).as_posix()
    try:
        script = read_script(path)
    except PalaestraError as error:
        return ScannedScript(name, "", "", "", 0, saves=False, needs=(), problem=error.message)
    names = {argument.name for argument in script.arguments}
    defaults, _ = resolve_values(script.arguments, {})
    if script.style == NO_ARGUMENTS or "env_id" not in names:
        return None
    return ScannedScript(
        path=name,
        algorithm=path.stem.partition("_")[0].upper(),
        actions=_actions(script),
        style=script.style,
        arguments=len(script.settable_arguments),
        saves="save_model" in names,
        needs=tuple(missing_packages(script, additional=implied_packages(script, defaults))),
    )


def _actions(script: Script) -> str:
    """From an assertion in the script, else from its name."""
    required = {ACTIONS[space] for space in script.action_spaces if space in ACTIONS}
    if len(required) == 1:
        return required.pop()
    if "continuous" in script.path.stem:
        return "continuous"
    return ACTIONS_BY_ALGORITHM.get(script.path.stem.partition("_")[0], "any")


CHECKOUTS = ".checkouts.json"  # in the folder of the runs
MAX_CHECKOUTS = 20  # the newest stay


def known_checkouts(runs_root: Path) -> list[Path]:
    """Existing checkouts, newest first."""
    try:
        data: Any = read_json(runs_root / CHECKOUTS) if (runs_root / CHECKOUTS).is_file() else []
    except DamagedFile:
        data = []
    named = [Path(one) for one in data if isinstance(one, str)] if isinstance(data, list) else []
    return [path for path in named if path.is_dir()]


def remember_checkout(runs_root: Path, checkout: Path) -> None:
    checkout = checkout.expanduser().absolute()
    known = known_checkouts(runs_root)
    if known[:1] == [checkout]:
        return
    newest = [checkout, *(one for one in known if one != checkout)]
    runs_root.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(runs_root / CHECKOUTS, [str(path) for path in newest[:MAX_CHECKOUTS]])


def remember_checkout_of(runs_root: Path, script: Path) -> None:
    """Remembers the repository of a script; a script outside of one may lie in a home directory."""
    repository = next((folder for folder in script.parents if (folder / ".git").exists()), None)
    if repository is not None:
        remember_checkout(runs_root, repository)
