"""`hub:OWNER/NAME[@REVISION]`: a policy that somebody sent to the hub, fetched into this user's cache."""

from __future__ import annotations

import re
from pathlib import Path

import platformdirs

from palaestra.checkpoints.hub_client import check_repo_id, first_line, hub_client, refusals
from palaestra.core.errors import NotFound, UsageError

PREFIX = "hub:"
REVISION = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)  # becomes the name of a folder
WANTED = ("model_*.yaml", "model_*.safetensors")  # nothing else of a stranger's folder comes to this machine


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
            hub.snapshot_download(repo_id, revision=revision or None, local_dir=str(place), allow_patterns=list(WANTED))
        )
    except refusals() as error:
        raise NotFound(
            f"{target} could not be fetched: {first_line(error)}",
            "Is the name right, are you online, and for a private one, logged in with the hub's own program?",
        ) from error
