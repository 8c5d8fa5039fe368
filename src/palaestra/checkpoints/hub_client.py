"""The hub's own library: found when it is asked for, and its refusals as ours."""

from __future__ import annotations

import importlib
import re
from typing import Any

from palaestra.core.errors import MissingExtra, UsageError

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
