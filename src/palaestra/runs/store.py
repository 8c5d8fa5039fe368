"""All runs of a project: made, found, listed, removed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.clock import Clock, SystemClock
from palaestra.core.errors import DamagedFile, NotFound, PalaestraError, RunFailed, UsageError, did_you_mean
from palaestra.core.run import RunRecord, RunRequest, RunState
from palaestra.runs.directory import SUBDIRECTORIES, RunDirectory, has_only_logs
from palaestra.runs.documents import write_config, write_request
from palaestra.runs.environment import describe_environment
from palaestra.runs.files import fsync_directory, in_flight, is_abandoned, read_json, stamped, unstamped, write_json
from palaestra.runs.identity import RunNames, check_name, is_run_id, new_run_id, nickname
from palaestra.runs.journal import Journal
from palaestra.runs.lock import run_lock
from palaestra.runs.status import ACTIVE, read_record, unreadable_record, write_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.core.run import RunRequest


SCHEMA_VERSION = 1


def write_manifest(directory: RunDirectory, request: RunRequest, name: str) -> None:
    """The map is the same for the whole life of a run: it says where things go, also those yet to come."""
    manifest = {
        "run": directory.id,
        "name": name,
        "kind": request.kind,
        "recipe": request.recipe,
        "command": request.command,
        "submitted_by": request.submitted_by,
        "entries": _entries(directory),
    }
    write_json(directory.manifest_file, stamped(manifest, SCHEMA_VERSION))


def read_manifest(directory: RunDirectory) -> dict[str, Any]:
    path = directory.manifest_file
    return unstamped(read_json(path, follow_links=False), SCHEMA_VERSION, path)


def _entries(directory: RunDirectory) -> dict[str, dict[str, str]]:
    """By role; paths are relative to the run's directory."""
    files = {
        "request": (directory.request_file, "yaml"),
        "config": (directory.config_file, "yaml"),
        "environment": (directory.environment_file, "json"),
        "status": (directory.status_file, "json"),
        "journal": (directory.journal_file, "jsonl"),
        "metrics": (directory.metrics_file, "sqlite"),
        "eval_summary": (directory.eval_summary_file, "json"),
    }
    entries = {role: {"path": path.name, "kind": kind} for role, (path, kind) in files.items()}
    return entries | {name: {"path": name, "kind": "directory"} for name in SUBDIRECTORIES}


ENVIRONMENT_VARIABLE = "PALAESTRA_RUNS_DIR"
ENVIRONMENT_SCHEMA_VERSION = 1
NAME_ATTEMPTS = 20
NOT_OURS_TO_WRITE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT}


def runs_root() -> Path:
    """Where this project's runs are: PALAESTRA_RUNS_DIR, or ./runs."""
    return Path(os.environ.get(ENVIRONMENT_VARIABLE) or "runs").expanduser()


class RunStore:
    def __init__(self, root: Path | None = None, clock: Clock | None = None) -> None:
        self.root = (runs_root() if root is None else root).absolute()
        self._clock = clock or SystemClock()
        self._names = RunNames(self.root)

    def create(
        self,
        request: RunRequest,
        config: dict[str, Any],
        name: str | None = None,
        total_steps: int = 0,
        queue: dict[str, Any] | None = None,
    ) -> RunDirectory:
        """A complete new run in state queued. Whatever goes wrong, no half of one is left to be seen.

        `config` is plain data (`model_dump(mode="json")`); without a name here or in the request it gets a nickname.
        `queue` is what a daemon that accepts the run has to remember of it, from its first moment on.
        """
        wanted = name or request.name
        given = check_name(wanted) if wanted else None
        with self._as_user_errors():
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._sweep()
            if given is not None and self.named(given) is not None:
                raise _taken(given)
            run_id = new_run_id(after=max(self._ids(), default=""))
            chosen = given or self._free_nickname()
            record = RunRecord(
                id=run_id,
                name=chosen,
                kind=request.kind,
                recipe=request.recipe,
                state=RunState.QUEUED,
                created_at=self._clock.now(),
                total_steps=total_steps,
            )
            directory = self._build(record, request, config, queue)
            if not self._names.claim(chosen, run_id):
                self._discard(directory)
                raise _taken(chosen)
            return directory

    def find(self, selector: str) -> RunDirectory | None:
        """Like `resolve`, but None when nothing fits."""
        try:
            return self.resolve(selector)
        except NotFound:
            return None

    def resolve(self, selector: str) -> RunDirectory:
        """The run meant by an id, a unique beginning of one, a name, `latest`, or a path."""
        run_id = selector.upper() if is_run_id(selector) else self._names.find(selector)
        if run_id is not None and self.directory(run_id).path.is_dir():
            return self.directory(run_id)
        return select(selector, self.list(), self.root)

    def named(self, name: str) -> RunDirectory | None:
        """The run of exactly that name, also when a crash kept it from getting its link."""
        run_id = self._names.find(name)
        if run_id is not None:
            return self.directory(run_id)
        unlinked = sorted(self._ids() - self._names.linked(), reverse=True)
        return next((self.directory(each) for each in unlinked if self._record(each).name == name), None)

    def directory(self, run_id: str) -> RunDirectory:
        return RunDirectory(self.root / run_id)

    def list(self) -> list[RunRecord]:
        """Newest first. A run whose status cannot be read is listed as lost, with the reason."""
        return [self._record(run_id) for run_id in sorted(self._ids(), reverse=True)]

    def remove(self, selector: str) -> RunRecord:
        """Delete a run and everything in it. It is gone at once or still there whole."""
        directory = self.resolve(selector)
        if directory.path.parent != self.root:
            raise UsageError(f"{directory.path} is not in {self.root}.", "Set PALAESTRA_RUNS_DIR to its parent.")
        record = self._record(directory.id)
        if record.state in ACTIVE:
            raise UsageError(
                f"Run '{record.name}' is {record.state} (process {record.pid}) and is not removed.",
                f"Stop it first: palaestra runs stop {record.name}",
            )
        with self._as_user_errors(), run_lock(directory):
            self._names.release(record.name, directory.id)
            self._discard(directory)
        return record

    def _build(
        self, record: RunRecord, request: RunRequest, config: dict[str, Any], queue: dict[str, Any] | None
    ) -> RunDirectory:
        """Write all files under a hidden name, then rename once."""
        workshop = self.root / f".new-{os.getpid()}-{record.id}"
        final = self.directory(record.id)
        with in_flight(workshop):
            try:
                workshop.mkdir(mode=0o700)
                draft = RunDirectory(workshop / record.id).make()
                write_request(draft, request)
                write_config(draft, config)
                write_json(draft.environment_file, stamped(describe_environment(), ENVIRONMENT_SCHEMA_VERSION))
                write_manifest(draft, request, record.name)
                write_record(draft, record, durable=True)
                if queue is not None:
                    write_json(draft.queue_file, queue)
                Journal(draft, self._clock).record(
                    "run.created",
                    name=record.name,
                    recipe=request.recipe,
                    kind=request.kind,
                    submitted_by=request.submitted_by,
                    command=request.command,
                )
                draft.path.rename(final.path)
                fsync_directory(self.root)
            finally:
                shutil.rmtree(workshop, ignore_errors=True)
        return final

    def _discard(self, directory: RunDirectory) -> None:
        trash = self.root / f".trash-{os.getpid()}-{directory.id}"
        with in_flight(trash):
            directory.path.rename(trash)
            fsync_directory(self.root)
            shutil.rmtree(trash, ignore_errors=True)

    def _sweep(self) -> None:
        """Finish what killed processes began: drafts and deletions."""
        for pattern in (".new-*", ".trash-*"):
            for path in self.root.glob(pattern):
                if is_abandoned(path):
                    shutil.rmtree(path, ignore_errors=True)

    def _ids(self) -> set[str]:
        try:
            return {
                entry.name
                for entry in os.scandir(self.root)
                if is_run_id(entry.name) and entry.is_dir() and not has_only_logs(entry.path)
            }
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def _record(self, run_id: str) -> RunRecord:
        try:
            return replace(read_record(self.directory(run_id)), id=run_id)  # a directory copied by hand is itself
        except (DamagedFile, NotFound) as error:
            return unreadable_record(run_id, self._names.name_of(run_id) or run_id, error)

    def _free_nickname(self) -> str:
        names = (nickname() for _ in range(NAME_ATTEMPTS))
        return next((name for name in names if self._names.find(name) is None), new_run_id()[-10:].lower())

    @contextlib.contextmanager
    def _as_user_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"The runs directory {self.root} cannot be written: {error.strerror or error}."
            if error.errno in NOT_OURS_TO_WRITE:
                raise UsageError(message, f"Choose another one with {ENVIRONMENT_VARIABLE}.") from error
            raise RunFailed(message, f"Make room, or choose another one with {ENVIRONMENT_VARIABLE}.") from error


def _taken(name: str) -> PalaestraError:
    return UsageError(
        f"There is already a run called '{name}'.",
        "Continue it, choose another name with run=NAME, or remove it: palaestra runs rm " + name,
    )


SHOWN = 8


def select(selector: str, records: list[RunRecord], root: Path) -> RunDirectory:
    """Among `records`, newest first. Exact words go before beginnings: `latest`, id, name, beginning of an id, path."""
    if selector == "latest":
        return _latest(records, root)
    by_id = [record for record in records if record.id == selector.upper()]
    by_name = [record for record in records if record.name == selector]
    by_prefix = [record for record in records if selector and record.id.startswith(selector.upper())]
    found = by_id or by_name or by_prefix
    if len(found) > 1:
        raise _ambiguous(selector, found)
    if found:
        return RunDirectory(root / found[0].id)
    return _at_path(selector) or _nothing(selector, records, root)


def _latest(records: list[RunRecord], root: Path) -> RunDirectory:
    if not records:
        raise NotFound(f"There are no runs in {root} yet.", "Start one: palaestra train cartpole")
    return RunDirectory(root / records[0].id)


def _at_path(selector: str) -> RunDirectory | None:
    """Anything with a separator, or the directory itself; never a bare word that happens to be a file here.

    `runs/NAME` will do as well as `runs/by-name/NAME`.
    """
    if os.sep not in selector and selector != ".":
        return None
    try:
        path = Path(selector).expanduser().resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    named = RunNames(path.parent).find(path.name)
    directory = RunDirectory(path.parent / named if named else path)
    return directory if is_run_id(directory.id) and directory.status_file.is_file() else None


def _ambiguous(selector: str, found: list[RunRecord]) -> NotFound:
    listed = ", ".join(f"{record.id} ({record.name})" for record in found[:SHOWN])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return NotFound(f"'{selector}' could be any of {len(found)} runs: {listed}{more}.", "Type more of the id.")


def _nothing(selector: str, records: list[RunRecord], root: Path) -> RunDirectory:
    names = [record.name for record in records]
    hint = did_you_mean(selector, [*names, *(record.id for record in records), "latest"])
    hint = hint or (f"Newest: {', '.join(names[:SHOWN])}." if names else "There are no runs there yet.")
    raise NotFound(f"No run named '{selector}' in {root}.", hint)
