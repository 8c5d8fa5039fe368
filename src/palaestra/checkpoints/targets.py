"""What a user types to mean a policy: `cartpole-1:best`, `runs/x:10`, a run, a sidecar, weights, `hub:OWNER/NAME`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.checkpoints.convert import inspect_file
from palaestra.checkpoints.hub_client import PREFIX, fetch_from_hub
from palaestra.checkpoints.selection import open_checkpoint, parse_selector
from palaestra.core.errors import DamagedFile, NotFound
from palaestra.core.run import UPLOADED
from palaestra.runs.directory import RunDirectory
from palaestra.runs.status import read_written_record
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from palaestra.checkpoints.selection import OpenedCheckpoint

FILE_ENDINGS = (".yaml", ".safetensors")


@dataclass(frozen=True)
class Target:
    directory: Path  # the one with the checkpoints in it
    selector: str | int | Path
    is_own: bool  # lies in the user's own store of runs, and so was made here

    def open(self) -> OpenedCheckpoint:
        return open_checkpoint(self.directory, self.selector)


def find_target(target: str | Path, runs_root: Path | None = None) -> Target:
    """Without a selector, `latest` is meant."""
    if str(target).startswith(PREFIX):
        return Target(fetch_from_hub(str(target)), "latest", is_own=False)
    store = RunStore(runs_root)
    if str(target).endswith(FILE_ENDINGS):
        return _file_target(Path(target).expanduser(), store)
    if Path(target).is_file():
        raise _refused_file(Path(target))
    head, _, selector = str(target).rpartition(":")
    if not head:
        head, selector = str(target), "latest"
    run = _find_run(head, store)
    return Target(run.checkpoints, parse_selector(selector), _was_made_here(run.path, run, store.root))


def lies_in_own_store(checkpoints: Path, runs_root: Path | None = None) -> bool:
    """Whether a folder of checkpoints belongs to a run of the user's own store that was made here."""
    return _was_made_here(checkpoints, RunDirectory(checkpoints.resolve().parent), RunStore(runs_root).root)


def _file_target(path: Path, store: RunStore) -> Target:
    if not path.exists():
        hint = "Give a run with a selector, such as my-run:best, or a path."
        raise NotFound(f"The file does not exist: {path}.", hint)
    return Target(path.parent, path, _was_made_here(path, RunDirectory(path.resolve().parent.parent), store.root))


def _refused_file(path: Path) -> DamagedFile:
    """`inspect_file` itself refuses pickles; other files hold weights without a description of the policy."""
    kind = inspect_file(path).kind
    return DamagedFile(
        f"{path} holds weights ({kind}), but nothing says which policy and environment they belong to.",
        "Give a checkpoint of a run, such as my-run:best; 'palaestra convert' makes plain weights of this file.",
    )


def _find_run(text: str, store: RunStore) -> RunDirectory:
    """A directory as it stands, `runs/NAME` with the run's name instead of its id, or whatever the store knows."""
    path = Path(text).expanduser()
    if RunDirectory(path).checkpoints.is_dir():
        return RunDirectory(path.resolve())
    if len(path.parts) > 1 and path.parent.is_dir():
        return RunStore(path.parent).resolve(path.name)
    return store.resolve(text)


def _was_made_here(path: Path, run: RunDirectory, root: Path) -> bool:
    """Lies in the user's own store, and did not come there by an upload."""
    if not path.resolve().is_relative_to(root.resolve()):
        return False
    try:
        return read_written_record(run).kind != UPLOADED
    except (NotFound, DamagedFile):  # a folder of files
        return True
