"""Power loss around the small files of runs and daemon: what was acknowledged is there, and never half of it.

Every call that matters is recorded while it is really made. The model is pessimistic, as in tests/checkpoints: data
that was not synced may be gone, cut, zeros or whole; a name is durable once its directory was synced after it changed.
"""

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from palaestra.core.errors import PalaestraError
from palaestra.core.run import RunRequest, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.run_entry import Submission, read_submission, stamped_submission
from palaestra.runs.files import read_json, write_json
from palaestra.runs.status import read_written_record
from palaestra.runs.store import RunStore

OLD, NEW = {"step": 1, "note": "o" * 100}, {"step": 2, "note": "n" * 200}
NEEDED = {"request.yaml", "config.yaml", "status.json", "queue.json"}


@dataclass(frozen=True)
class Step:
    kind: str  # "sync" of a file's data or of a directory's names, "move" of a file or a directory
    path: Path
    target: Path | None = None


class Recorder:
    """Does everything for real and remembers it, but for syncs to be left out, as if they had not been made."""

    def __init__(self, monkeypatch, leave_out=""):
        self.steps, self.leave_out = [], leave_out
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)
        for name in ("rename", "replace"):
            monkeypatch.setattr(os, name, self.moving(getattr(os, name)))

    def fsync(self, descriptor):
        self._sync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if self.leave_out not in {"directory sync" if path.is_dir() else "file sync", f"sync of {path}"}:
            self.steps.append(Step("sync", path))

    def moving(self, real):
        def move(source, target, **locations):
            real(source, target, **locations)
            self.steps.append(Step("move", Path(source), Path(target)))

        return move

    def survivors(self):
        """Files that are certainly there, whole and under their last name, if the power goes now."""
        synced, durable, loose = set(), {}, {}
        for step in self.steps:
            if step.kind == "move":
                self._move(step, synced, durable, loose)
            elif step.path in {target.parent for target in loose}:
                for target in [target for target in loose if target.parent == step.path]:
                    durable[target] = loose.pop(target)
            else:
                synced.add(step.path)
        return {path for path, is_whole in durable.items() if is_whole and not loose.keys() & set(path.parents)}

    @staticmethod
    def _move(step, synced, durable, loose):
        """A directory takes along what is in it: that is as durable as it was, once the directory itself is."""
        inside = [path for path in (*durable, *loose) if step.path in path.parents]
        loose[step.target] = step.path in synced or bool(inside)
        for path in inside:
            where = durable if path in durable else loose
            where[step.target / path.relative_to(step.path)] = where.pop(path)


def crash_states(steps, old, new):
    """What a reader may find after a power loss at any instant of replacing one file."""
    for instant in range(len(steps) + 1):
        done = steps[:instant]
        moves = [index for index, step in enumerate(done) if step.kind == "move"]
        is_synced = any(step.kind == "sync" and not step.path.is_dir() for step in done)
        contents = [new] if is_synced else [b"", new[:50], bytes(len(new)), new]
        has_name = bool(moves) and any(step.path.is_dir() for step in done[moves[0] :] if step.kind == "sync")
        names = [True] if has_name else ([False, True] if moves else [False])
        for is_new, content in itertools.product(names, contents):
            yield instant == len(steps), content if is_new else old


def outcome(tmp_path, monkeypatch, leave_out=""):
    """(states, how many could not be read, how many had lost what was acknowledged)"""
    path = tmp_path / "small.json"
    write_json(path, OLD)
    old, recorder = path.read_bytes(), Recorder(monkeypatch, leave_out)
    write_json(path, NEW)
    new, unreadable, lost, states = path.read_bytes(), 0, 0, 0
    monkeypatch.undo()
    for is_done, content in crash_states(recorder.steps, old, new):
        states += 1
        path.write_bytes(content)
        try:
            found = read_json(path)
        except PalaestraError:
            unreadable += 1
            continue
        assert found in (OLD, NEW)
        lost += is_done and found != NEW
    return states, unreadable, lost


@pytest.mark.fault("X3")
def test_a_small_file_is_old_or_new_and_never_half(tmp_path, monkeypatch, figure):
    states, unreadable, lost = outcome(tmp_path, monkeypatch)
    figure("crash states of a small file", states)
    assert (unreadable, lost) == (0, 0)
    assert states >= 8


@pytest.mark.fault("X3")
@pytest.mark.parametrize(("leave_out", "unreadable"), [("file sync", True), ("directory sync", False)])
def test_a_sync_that_is_left_out_of_a_small_file_is_observed(tmp_path, monkeypatch, leave_out, unreadable):
    _, halves, lost = outcome(tmp_path, monkeypatch, leave_out)
    assert (halves > 0) is unreadable
    assert lost > 0 or unreadable


def accepted(root, monkeypatch, leave_out=""):
    """What of an accepted run certainly survives, as relative names; and the run itself."""
    store = RunStore(root)
    recorder = Recorder(monkeypatch, leave_out)
    queue = stamped_submission(Submission(1, 1, Resources()))
    directory = store.create(RunRequest("script", "", {}), {}, "first", queue=queue)
    survivors = recorder.survivors()
    monkeypatch.undo()
    inside = [path for path in survivors if directory.path in path.parents]
    return {path.relative_to(directory.path).as_posix() for path in inside}, directory


@pytest.mark.fault("X3")
def test_an_accepted_run_survives_with_all_that_a_daemon_needs_to_carry_it_out(tmp_path, monkeypatch, figure):
    survivors, directory = accepted(tmp_path, monkeypatch)
    figure("files of an accepted run that survive", len(survivors))
    assert survivors >= NEEDED
    assert read_written_record(directory).state is RunState.QUEUED
    assert read_submission(directory).sequence == 1


@pytest.mark.fault("X3")
@pytest.mark.parametrize("leave_out", ["file sync", "directory sync", "sync of {root}"])
def test_a_sync_that_is_left_out_of_an_accepted_run_is_observed(tmp_path, monkeypatch, leave_out):
    survivors, _ = accepted(tmp_path, monkeypatch, leave_out.format(root=tmp_path))
    assert not survivors & NEEDED
