"""A copy of a run that is trained on a machine with a disk of its own, kept in the driver's folder of runs.

It is written in the order in which a trainer writes (the sidecar of a checkpoint last), so that at every instant it is
a run directory that can be continued.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path, PurePosixPath

from palaestra.checkpoints import durable
from palaestra.checkpoints import sidecar as sidecar_text
from palaestra.checkpoints.files import SaveFailed, sidecar_name
from palaestra.checkpoints.replay_segments import append_received
from palaestra.checkpoints.retention import exclusive_change, sweep_segments
from palaestra.cluster.training.run_changes import (
    JOURNAL,
    NOT_RESUMED,
    STATUS,
    Appended,
    Change,
    CheckpointRemoved,
    CheckpointSaved,
    FilePatch,
    FileRemoved,
    RowsAppended,
    RunScanner,
)
from palaestra.cluster.training.run_sender import RunReport
from palaestra.core.clock import SystemClock
from palaestra.core.errors import DamagedFile, NotFound, RunFailed, UsageError
from palaestra.core.run import RunState
from palaestra.runs.directory import RunDirectory
from palaestra.runs.files import fsync_directory, in_flight, write_atomic, write_json
from palaestra.runs.identity import RunNames, check_name, is_run_id, nickname
from palaestra.runs.lock import run_lock
from palaestra.runs.metrics.writer import wait_for_writer
from palaestra.runs.processes import process_started_at
from palaestra.runs.status import ACTIVE, read_written_record, write_record
from palaestra.runs.store import RunStore

logger = logging.getLogger(__name__)

FOLD_SECONDS = 30.0  # for readers of the metrics to leave
NAME_ATTEMPTS = 20
LOGS = f"{RunDirectory(Path()).logs.name}/"


class RunMirror:
    """The driver's copy of the run called `name`; held, so that nobody else trains or removes it meanwhile."""

    def __init__(self, runs_root: Path, name: str) -> None:
        """A run of that name that exists is continued; else the first report makes it."""
        self._store = RunStore(runs_root)
        self.root = self._store.root
        self.name = check_name(name)
        self._stack = ExitStack()
        self._unfinished: RunDirectory | None = None  # the first report of a new run, until all of it is here
        self._pending: deque[RunReport] = deque()
        self._has_warned = False
        self.problem = ""  # what the disk said when it last refused something
        self.directory = self._store.named(name)
        if self.directory is not None:
            self._stack.enter_context(run_lock(self.directory))
            try:
                _fold_metrics(self.directory)
            except BaseException:
                self.close()
                raise

    @staticmethod
    def find(runs_root: Path, name: str) -> RunDirectory | None:
        return RunStore(runs_root).named(name) if name else None

    def contents(self) -> RunReport | None:
        """What another machine needs to continue the run; None when there is no run yet."""
        if self.directory is None:
            return None
        changes = RunScanner(self.directory, NOT_RESUMED).scan()
        return RunReport(self.directory.id, tuple(changes))

    @property
    def is_behind(self) -> bool:
        """Changes wait because the disk did not take them."""
        return bool(self._pending)

    def apply(self, report: RunReport, sender_root: str = "") -> None:
        """Write what was received; what the disk does not take now is kept and tried again by `retry`.

        `sender_root` is the folder of runs over there: texts that name it name ours.
        """
        if not is_run_id(report.run_id) or (self.directory is not None and self.directory.id != report.run_id):
            raise RunFailed(f"Received files of the run {report.run_id!r}, which is not the run '{self.name}'.")
        here = str(self.root)
        changes = [_localized(one, sender_root, here) for one in report.changes] if sender_root else report.changes
        self._pending.append(replace(report, changes=tuple(changes)))
        self.retry()

    def retry(self) -> None:
        """Go on where the disk said no; a warning says so once."""
        while self._pending:
            report = self._pending[0]
            applied = 0
            try:
                directory = self.directory or self._begin(report)
                for change in report.changes:
                    apply_change(directory, change)
                    applied += 1
                if self.directory is None and not report.has_more:
                    self._publish(directory)
            except (OSError, SaveFailed) as error:
                self._pending[0] = replace(report, changes=report.changes[applied:])
                self._warn(error)
                return
            self._pending.popleft()
            self._has_warned = False

    def _warn(self, error: Exception) -> None:
        self.problem = f"The copy of run '{self.name}' in {self.root} cannot be written: {error}"
        if not self._has_warned:
            logger.warning("%s It is tried again; training goes on.", self.problem)
        self._has_warned = True

    def lose(self, reason: str) -> None:
        """The machine that trained it is gone; the status says so."""
        if self.directory is None:
            return
        record = read_written_record(self.directory)
        if record.state in ACTIVE:
            now = SystemClock().now()
            lost = replace(record, state=RunState.LOST, ended_at=now, updated_at=now, failure=reason)
            write_record(self.directory, lost, durable=True)

    def close(self) -> None:
        if self._unfinished is not None:
            shutil.rmtree(self._unfinished.path.parent, ignore_errors=True)
            self._unfinished = None
        self._stack.close()

    def _begin(self, report: RunReport) -> RunDirectory:
        """A new run is written where nobody sees it until its first report is here, whole."""
        if self._unfinished is None:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = self.root / f".new-{os.getpid()}-{report.run_id}"
            self._stack.enter_context(in_flight(folder))
            folder.mkdir(mode=0o700)
            self._unfinished = RunDirectory(folder / report.run_id).make()
        if self._unfinished.id != report.run_id:
            raise RunFailed(f"Received files of two runs, {self._unfinished.id} and {report.run_id}.")
        return self._unfinished

    def _publish(self, unfinished: RunDirectory) -> None:
        if self._store.named(self.name) is not None:
            raise UsageError(f"There is already a run called '{self.name}'.", "Choose another name with run=NAME.")
        final = self._store.directory(unfinished.id)
        unfinished.path.rename(final.path)
        fsync_directory(self.root)
        shutil.rmtree(unfinished.path.parent, ignore_errors=True)
        self._unfinished = None
        self._stack.enter_context(run_lock(final))
        RunNames(self.root).claim(self.name, final.id)
        self.directory = final


def receive(runs_root: Path, report: RunReport, name: str) -> None:
    """On the machine that is to train: the run as the driver has it, under the same name."""
    if not is_run_id(report.run_id):
        raise UsageError(f"Invalid run id: {report.run_id!r}.")
    directory = RunDirectory(runs_root / report.run_id).make()
    for change in report.changes:
        apply_change(directory, change, keep_process=True)
    RunNames(runs_root).claim(check_name(name), report.run_id)


def apply_change(directory: RunDirectory, change: Change, *, keep_process: bool = False) -> None:
    """One of several that are applied in their order. In the status this process stands for the run, unless
    `keep_process`."""
    match change:
        case CheckpointSaved():
            _save_checkpoint(directory, change)
        case RowsAppended(name=name, offset=offset, data=data):
            directory.checkpoints.mkdir(mode=0o700, exist_ok=True)
            with exclusive_change(directory.checkpoints):
                append_received(directory.checkpoints, name, offset, data, durable.REAL)
        case CheckpointRemoved(epoch=epoch):
            _remove_checkpoint(directory, epoch)
        case FilePatch(path=name) if name == STATUS and not keep_process:
            _write_status(directory, change)
        case FilePatch():
            _patch(directory, change)
        case Appended(path=name, data=data):
            _append(_inside(directory, name), data)
        case FileRemoved(path=name):
            _inside(directory, name).unlink(missing_ok=True)


def add_log(runs_root: Path | None, report: RunReport) -> bool:
    """Of a rank that is not the leader; False while the run is not here yet."""
    if runs_root is None or not is_run_id(report.run_id):
        return True
    directory = RunDirectory(runs_root / report.run_id)
    if not directory.logs.is_dir():
        return False
    for change in report.changes:
        if isinstance(change, Appended) and change.path.startswith(LOGS):
            apply_change(directory, change)
    return True


def free_name(runs_root: Path) -> str:
    """For a run that nobody named: the machine that trains it does not know which names are taken here."""
    names = RunNames(runs_root)
    return next(name for name in (nickname() for _ in range(NAME_ATTEMPTS)) if names.find(name) is None)


def _patch(directory: RunDirectory, patch: FilePatch) -> None:
    path = _inside(directory, patch.path)
    content = bytearray(path.read_bytes() if path.exists() else b"")
    if patch.size > len(content):
        content += bytes(patch.size - len(content))
    for offset, data in patch.pieces:
        if offset < 0 or offset + len(data) > patch.size:
            raise DamagedFile(f"Received a piece of {patch.path} outside of the file.")
        content[offset : offset + len(data)] = data
    write_atomic(path, bytes(content[: patch.size]))


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if os.write(descriptor, data) != len(data):
            os.ftruncate(descriptor, size)  # it will be tried again
            raise OSError(f"not all of {len(data)} bytes could be added to {path}")
    finally:
        os.close(descriptor)


def _save_checkpoint(directory: RunDirectory, saved: CheckpointSaved) -> None:
    folder = directory.checkpoints
    described = sidecar_text.decode(saved.sidecar, sidecar_name(saved.epoch))
    if described.epoch != saved.epoch:
        raise DamagedFile(f"Received checkpoint {saved.epoch} with the sidecar of epoch {described.epoch}.")
    with exclusive_change(folder):
        if saved.parts:
            if {name: sidecar_text.digest(data) for name, data in saved.parts.items()} != described.files:
                raise DamagedFile(f"Received checkpoint {saved.epoch} with other files than its sidecar names.")
            durable.commit(folder, saved.epoch, saved.parts, described)
            sweep_segments(folder)  # what came for a checkpoint that never did
            return
        before = durable.read_sidecar(folder, saved.epoch)
        durable.rewrite_sidecar(folder, described)
        for name in before.files.keys() - described.files.keys():
            (folder / name).unlink(missing_ok=True)
        sweep_segments(folder)


def _remove_checkpoint(directory: RunDirectory, epoch: int) -> None:
    folder = directory.checkpoints
    with exclusive_change(folder):
        try:
            files = durable.read_sidecar(folder, epoch).files
        except NotFound:
            return
        durable.uncommit(folder, epoch)
        for name in files:
            (folder / name).unlink(missing_ok=True)
        sweep_segments(folder)


def _write_status(directory: RunDirectory, patch: FilePatch) -> None:
    """Whoever asks on this machine whether the run is alive, or stops it, asks the driver: its process is named."""
    pid = os.getpid()
    try:
        ((_, text),) = patch.pieces
        status = {**json.loads(text), "pid": pid, "pid_started_at": process_started_at(pid)}
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedFile(f"Received a {STATUS} that cannot be read: {error}.") from error
    write_json(directory.status_file, status)


def _fold_metrics(directory: RunDirectory) -> None:
    """A training that was killed here left its log beside the metrics; the file will be replaced, so it becomes one."""
    path = directory.metrics_file
    log = path.with_name(f"{path.name}-wal")
    deadline = time.monotonic() + FOLD_SECONDS
    while path.exists() and log.exists():
        wait_for_writer(path).close()
        if log.exists() and time.monotonic() > deadline:
            raise RunFailed(f"{path} has been read by others for {FOLD_SECONDS:.0f} s.", "Try again in a moment.")


def _inside(directory: RunDirectory, name: str) -> Path:
    """The path of a received name, its folders made; a name that leads out of the run directory is refused."""
    relative = PurePosixPath(name)
    parts = relative.parts
    is_safe = parts and not relative.is_absolute() and all(part not in {"", ".", ".."} for part in parts)
    if not is_safe or any(part.startswith(".") for part in parts) or "\0" in name:
        raise DamagedFile(f"Received a file called {name!r}, which does not belong into a run directory.")
    path = directory.path.joinpath(*parts)
    for folder in reversed(path.parents[: len(parts) - 1]):
        if folder.is_symlink():
            raise DamagedFile(f"{folder} is a link; files that were received are not written through it.")
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def _localized(change: Change, there: str, here: str) -> Change:
    """The same change with our folder in place of theirs, in texts for people: status, journal and logs."""
    match change:
        case Appended(path=name, data=data) if name == JOURNAL or name.startswith(LOGS):
            return replace(change, data=data.replace(there.encode(), here.encode()))
        case FilePatch(path=name, pieces=((0, data),)) if name == STATUS:
            text = data.replace(there.encode(), here.encode())
            return FilePatch(name, len(text), ((0, text),))
        case _:
            return change
