"""Power loss while a replay buffer is saved, by a model of the disk as in test_power_loss.py, with files that grow.

Names made or changed since the last sync of their folder may be on the disk or not, in any combination; of bytes that
were added since a file's last sync there may be none, some, zeros or all.
"""

import itertools
from dataclasses import dataclass

import pytest

from palaestra.checkpoints.files import RealFileSystem
from palaestra.checkpoints.replay_segments import FOLDER, Rows, read_from, segments_of
from palaestra.checkpoints.replay_segments import verify as verify_segments
from palaestra.checkpoints.selection import survey
from palaestra.checkpoints.store import CheckpointStore, PreparedSave
from palaestra.core.errors import DamagedFile

SEGMENT = 15  # rows


@dataclass(frozen=True)
class Step:
    kind: str  # link, rename, unlink, write (of a new content), sync (of a file), barrier (of a folder)
    place: str = ""  # the folder: "" or FOLDER
    name: str = ""
    old_name: str = ""  # of a rename
    content: bytes = b""
    before: bytes = b""  # what was there before a write


class Recorder(RealFileSystem):
    """Does everything for real and remembers it; a mutant leaves out one kind of sync."""

    def __init__(self, root, leave_out=""):
        self.root, self.leave_out, self.steps = root, leave_out, []

    def place(self, path):
        return FOLDER if path.parent.name == FOLDER else ""

    def write_temporary(self, path, data):
        super().write_temporary(path, data)
        self.steps.append(Step("link", self.place(path), path.name))
        self.steps.append(Step("write", self.place(path), path.name, content=path.read_bytes()))
        self.sync(path)

    def append(self, path, size, data):
        before = path.read_bytes()[:size]
        super().append(path, size, data)
        self.steps.append(Step("write", self.place(path), path.name, content=path.read_bytes(), before=before))
        self.sync(path)

    def sync(self, path):
        if self.leave_out != "file sync":
            self.steps.append(Step("sync", self.place(path), path.name))

    def rename(self, source, target):
        super().rename(source, target)
        self.steps.append(Step("rename", self.place(target), target.name, source.name))

    def unlink(self, path):
        super().unlink(path)
        self.steps.append(Step("unlink", self.place(path), path.name))

    def fsync_directory(self, directory):
        if self.leave_out != "directory sync":
            self.steps.append(Step("barrier", FOLDER if directory.name == FOLDER else ""))


def crash_states(base, steps):
    """{(folder, name): bytes} for every instant, and every choice that the disk may have made."""
    for instant in range(len(steps) + 1):
        done = steps[:instant]
        barriers = {step.place: index for index, step in enumerate(done) if step.kind == "barrier"}
        changes = [(index, step) for index, step in enumerate(done) if step.kind in {"link", "rename", "unlink"}]
        loose = [step for index, step in changes if index > barriers.get(step.place, -1)]
        for count in range(len(loose) + 1):
            for lost in itertools.combinations(loose, count):
                yield from contents(base, done, lost)


def contents(base, done, lost):
    """The files by what was written to them, whatever they are called by now."""
    files = {key: [content] for key, content in base.items()}  # possible contents
    hidden = {}  # those whose name did not reach the disk
    for step in done:
        key = (step.place, step.name)
        if step.kind == "link":
            (hidden if step in lost else files)[key] = [b""]
        elif step.kind == "write":
            added = step.content[len(step.before) :]
            torn = [step.before, step.before + added[: len(added) // 2], step.before + bytes(len(added)), step.content]
            (files if key in files else hidden)[key] = torn
        elif step.kind == "sync":
            group = files if key in files else hidden
            group[key] = group[key][-1:]
        elif step.kind == "rename":
            source = (step.place, step.old_name)
            found = files.pop(source, None) or hidden.pop(source, None)
            if step in lost:
                hidden[key] = found  # what is written to it goes nowhere that has a name
            else:
                files[key] = found
        elif step.kind == "unlink" and step not in lost:
            files.pop(key, None)
    names = list(files)
    for choice in itertools.product(*(files[name] for name in names)):
        yield dict(zip(names, choice, strict=True))


def row_bytes(start, stop):
    return b"".join(b"<%05d>" % row for row in range(start, stop))


def save(store, describe, epoch):
    """Ten rows more."""
    first, end = store.segments.next_row(0, SEGMENT), 10 * epoch
    blocks = [(start + 5, [row_bytes(start, start + 5)]) for start in range(first, end, 5)]
    parts = {f"model_{epoch:04d}.safetensors": b"W%d" % epoch, f"trainer_state_{epoch:04d}.pt": b"S%d" % epoch}
    store.commit(PreparedSave(describe(epoch), parts, [Rows(0, first, 0, SEGMENT, blocks)]))


def content_of(directory):
    files = {("", path.name): path.read_bytes() for path in directory.iterdir() if path.is_file()}
    return files | {(FOLDER, path.name): path.read_bytes() for path in (directory / FOLDER).iterdir()}


def states_of(tmp_path, describe, leave_out=""):
    """All that the disk may hold while epoch 2 is saved: it adds to a segment and begins another."""
    directory = tmp_path / "checkpoints"
    recorder = Recorder(directory, leave_out)
    store = CheckpointStore(directory, None, recorder)
    save(store, describe, 1)
    base = content_of(directory)
    recorder.steps.clear()
    save(store, describe, 2)
    assert {"append", "begin"} == {"append" if step.before else "begin" for step in writes_of_rows(recorder.steps)}
    log = next(index for index, step in enumerate(recorder.steps) if "log" in step.name)
    return {frozenset(state.items()) for state in crash_states(base, recorder.steps[:log])}


def writes_of_rows(steps):
    return [step for step in steps if step.kind == "write" and step.place == FOLDER]


def broken_promises(tmp_path, states):
    """How many sidecars that can be read name rows that are not there."""
    room, broken = tmp_path / "room", 0
    (room / FOLDER).mkdir(parents=True)
    for state in states:
        for path in [*room.glob("*.*"), *(room / FOLDER).iterdir()]:
            path.unlink()
        for (place, name), data in state:
            (room / place / name).write_bytes(data)
        found = survey(room)
        assert found.checkpoints[-1].epoch >= 1, "what was acknowledged is lost"
        for one in found.checkpoints:
            try:
                verify_segments(room, segments_of(one))
            except DamagedFile:
                broken += 1
                continue
            rows = b"".join(data for segment in segments_of(one) for data in read_from(room, segment, 0))
            assert rows == row_bytes(0, 10 * one.epoch)
    return broken


@pytest.mark.fault("C3")
def test_no_power_loss_during_a_save_leaves_a_sidecar_without_its_rows(tmp_path, describe, figure):
    states = states_of(tmp_path, describe)
    assert len(states) > 20
    assert broken_promises(tmp_path, states) == 0
    figure("crash states of a save with a replay buffer, all clean", len(states))


@pytest.mark.fault("C3")
@pytest.mark.parametrize("left_out", ["file sync", "directory sync"])
def test_leaving_out_a_sync_of_segments_is_seen(tmp_path, describe, left_out, figure):
    assert broken_promises(tmp_path, states_of(tmp_path, describe, left_out)) > 0
    figure("planted defect seen", f"segments without {left_out}")
