"""The hub's own library: found when it is asked for, and its refusals as ours."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import platformdirs

from palaestra.core.errors import MissingExtra, NotFound, UsageError

REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def hub_client(purpose: str) -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ModuleNotFoundError as error:
        raise MissingExtra(purpose, "hub") from error


def check_repo_id(repo_id: str) -> None:
    if not REPO_ID.fullmatch(repo_id) or ".." in repo_id:
        raise UsageError(f"repo_id={repo_id} is not OWNER/NAME.")


def refusals() -> tuple[type[Exception], ...]:
    """No token, no network, a name that the hub does not take.

    A connection that failed is an error of the hub's HTTP library, whichever that is; its own error is made of that.
    """
    try:
        own = importlib.import_module("huggingface_hub.errors").HfHubHTTPError
    except (ModuleNotFoundError, AttributeError):  # an older or a newer hub, which calls it otherwise
        return (OSError, ValueError)
    return (OSError, ValueError, *(base for base in own.__bases__ if base is not Exception))


def first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


PREFIX = "hub:"
REVISION = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)  # becomes the name of a folder
WANTED_FILES = ("model_*.yaml", "model_*.safetensors")  # nothing else of a stranger's folder comes to this machine


def fetch_from_hub(target: str) -> Path:
    """The folder with its checkpoints. Only what changed there since the last time is fetched again."""
    repo_id, at, revision = target.removeprefix(PREFIX).partition("@")
    check_repo_id(repo_id)
    if at and not REVISION.fullmatch(revision):
        raise UsageError(f"{target}: '{revision}' is no revision.", "Give a tag or a commit, or leave '@' out.")
    hub = hub_client(f"Fetching {target}")
    place = Path(platformdirs.user_cache_dir("palaestra")) / "hub" / repo_id.replace("/", "--") / (revision or "newest")
    try:
        # Real files in a folder of its own: the hub's shared cache is made of links, which the reader does not follow.
        return Path(
            hub.snapshot_download(
                repo_id, revision=revision or None, local_dir=str(place), allow_patterns=list(WANTED_FILES)
            )
        )
    except refusals() as error:
        raise NotFound(
            f"{target} could not be fetched: {first_line(error)}",
            "Is the name right, are you online, and for a private one, logged in with the hub's own program?",
        ) from error
