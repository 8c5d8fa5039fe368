"""A copy on another disk: valid at every instant, complete at the end, and the run goes on from it bit for bit."""

import errno
import importlib.util
import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.checkpoints import durable
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.cluster.training import run_mirror
from palaestra.cluster.training.run_changes import Appended, CheckpointSaved, FilePatch, FileRemoved
from palaestra.cluster.training.run_mirror import RunMirror, free_name, receive
from palaestra.cluster.training.run_sender import RunReport, RunSender
from palaestra.core.errors import DamagedFile, PalaestraError, RunFailed, UsageError
from palaestra.core.run import RunState
from palaestra.runs.identity import RunNames
from palaestra.runs.journal import read_journal
from palaestra.runs.lock import run_lock
from palaestra.runs.status import read_record, read_written_record
from palaestra.runs.store import RunStore

spec = importlib.util.spec_from_file_location("toy_training", Path(__file__).with_name("toy_training.py"))
toy_training = importlib.util.module_from_spec(spec)
spec.loader.exec_module(toy_training)
NAME, ToyTraining, rows_of = toy_training.NAME, toy_training.ToyTraining, toy_training.rows_of

TOTAL = 40


class Machine:
    """Where the run is trained: a disk of its own, filled with what the driver has."""

    def __init__(self, base, mirror):
        self.root = Path(tempfile.mkdtemp(dir=base))
        contents = mirror.contents()
        if contents is not None:
            receive(self.root, contents, NAME)
        self.sender = RunSender(self.root, NAME)
        self.sender.skip_received()
        self.training = ToyTraining(self.root)

    def reports(self, *, is_last=False):
        self.sender._next_scan = 0.0
        while (report := self.sender.report(is_last=is_last)) is not None:
            yield report

    def lose(self):
        self.training.stop()
        shutil.rmtree(self.root)


def content_of(directory):
    """Relative name -> bytes of all that makes up a run; whose process it is differs between machines."""
    names = [path for path in directory.path.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {
        str(path.relative_to(directory.path)): path.read_bytes()
        for path in names
        if path.name not in {"status.json", "metrics.db"} and path.parent.name != "logs"
    }


def assert_resumable(root):
    """Every checkpoint that is there verifies, and no metric is behind the newest."""
    directory = RunStore(root).named(NAME)
    if directory is None:
        return
    epochs = durable.committed_epochs(directory.checkpoints)
    for epoch in epochs:
        durable.verify(directory.checkpoints, epoch)
    if epochs:
        newest = CheckpointManager(directory).load_for_resume().checkpoint.agent_step
        assert newest == 0 or max(row[1] for row in rows_of(directory)) >= newest


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The run as it is when nothing ever happens to it."""
    training = ToyTraining(tmp_path_factory.mktemp("undisturbed"))
    training.finish(TOTAL)
    return training.state, rows_of(training.directory)


STEPS = st.lists(st.sampled_from(["train", "save", "report", "part of a report", "loss", "driver killed"]), max_size=14)


@given(steps=STEPS, cut=st.integers(0, 6))
@settings(max_examples=25, deadline=None)
def test_after_any_saves_reports_and_losses_the_copy_continues_bit_for_bit(expected, steps, cut):
    with tempfile.TemporaryDirectory() as base:
        here = Path(base) / "driver"
        mirror = RunMirror(here, NAME)
        machine = Machine(base, mirror)
        for step in steps:
            if step == "train" and machine.training.step < TOTAL - 3:
                machine.training.train(3)
            elif step == "save":
                machine.training.save()
            elif step == "report":
                for report in machine.reports():
                    mirror.apply(report)
            elif step == "part of a report":  # the driver is killed in the middle of it
                for report in machine.reports():
                    mirror.apply(RunReport(report.run_id, report.changes[:cut], has_more=True))
            if step in {"loss", "driver killed", "part of a report"}:
                machine.lose()
                mirror.close()
                assert_resumable(here)
                mirror = RunMirror(here, NAME)
                machine = Machine(base, mirror)
        machine.training.finish(TOTAL)
        for report in machine.reports(is_last=True):
            mirror.apply(report)
        assert machine.sender.is_complete
        mirror.close()
        directory = RunStore(here).named(NAME)
        assert content_of(directory) == content_of(machine.training.directory)
        assert (machine.training.state, rows_of(directory)) == expected
        assert read_record(directory).state is RunState.FINISHED
        assert CheckpointManager(directory).load_for_resume().weights["state"].numpy().tobytes() == expected[0]


@pytest.fixture
def here(tmp_path):
    return tmp_path / "driver"


@pytest.fixture
def pair(tmp_path, here):
    with closing(RunMirror(here, NAME)) as mirror:
        machine = Machine(tmp_path, mirror)
        yield mirror, machine
        machine.training.stop()


def send(pair, **options):
    mirror, machine = pair
    reports = list(machine.reports(**options))
    for report in reports:
        mirror.apply(report, str(machine.root))
    return [change for report in reports for change in report.changes]


def test_a_checkpoint_travels_once_and_nothing_travels_twice(pair):
    _, machine = pair
    machine.training.train(5)
    machine.training.save()
    assert [change.epoch for change in send(pair) if isinstance(change, CheckpointSaved)] == [5]
    assert send(pair) == []
    machine.training.train(1)
    sent = send(pair)
    assert not [change for change in sent if isinstance(change, CheckpointSaved)]
    assert {change.path for change in sent} == {"metrics.db", "status.json"}


def test_of_metrics_only_pages_that_changed_travel(pair):
    _, machine = pair
    machine.training.train(3000)
    whole = next(change for change in send(pair) if getattr(change, "path", "") == "metrics.db")
    machine.training.train(1)
    later = next(change for change in send(pair) if getattr(change, "path", "") == "metrics.db")
    assert sum(len(data) for _, data in whole.pieces) == whole.size > 100_000
    assert sum(len(data) for _, data in later.pieces) < whole.size / 4
    assert rows_of(pair[0].directory) == rows_of(machine.training.directory)


def test_what_retention_removes_there_is_removed_here_and_never_before_the_newer_one_is_whole(pair):
    mirror, machine = pair
    for _ in range(5):
        machine.training.train(1)
        machine.training.save()
        send(pair)
        assert_resumable(mirror.directory.path.parent)
    assert durable.committed_epochs(mirror.directory.checkpoints) == [3, 4, 5]
    names = [path.name for path in mirror.directory.checkpoints.glob("trainer_state_*")]
    assert sorted(names) == ["trainer_state_0004.pt", "trainer_state_0005.pt"]


def test_while_it_is_trained_elsewhere_it_runs_here_and_belongs_to_the_driver(pair, here):
    mirror, machine = pair
    machine.training.train(2)
    send(pair)
    record = read_record(mirror.directory)
    assert (record.state, record.pid, record.agent_step) == (RunState.RUNNING, os.getpid(), 2)
    with pytest.raises(UsageError, match="is being trained by process"), run_lock(mirror.directory):
        pass
    with pytest.raises(UsageError, match="is being trained by process"):
        RunMirror(here, NAME)


def test_a_lost_machine_leaves_a_run_that_says_so(pair):
    mirror, machine = pair
    machine.training.train(2)
    send(pair)
    mirror.lose("The machine 10.0.0.2 is gone.")
    record = read_record(mirror.directory)
    assert (record.state, record.failure) == (RunState.LOST, "The machine 10.0.0.2 is gone.")


def test_texts_name_the_folder_that_their_reader_has(pair, here):
    mirror, machine = pair
    machine.training.train(1)
    send(pair)
    log = mirror.directory.log_file(0).read_text()
    assert str(here) in log
    assert str(machine.root) not in log


def test_a_log_goes_on_where_the_machine_before_left_it(tmp_path, here):
    for _ in range(2):
        with closing(RunMirror(here, NAME)) as mirror:
            machine = Machine(tmp_path, mirror)
            machine.training.train(1)
            machine.training.save()
            send((mirror, machine))
            machine.lose()
            lines = mirror.directory.log_file(0).read_text().splitlines()
            events = [entry.event for entry in read_journal(mirror.directory.journal_file)]
    assert [line.split()[0] for line in lines] == ["run.started", "checkpoint.saved", "run.resumed", "checkpoint.saved"]
    assert events == ["run.created", "run.started", "checkpoint.saved", "run.resumed", "checkpoint.saved"]


def test_a_line_that_the_driver_wrote_into_the_journal_stays_whole(pair):
    mirror, machine = pair
    send(pair)
    with mirror.directory.journal_file.open("a") as journal:
        journal.write("of the driver\n")
    with machine.training.directory.journal_file.open("ab") as journal:
        journal.write(b"half")
        journal.flush()
        assert not [change for change in send(pair) if isinstance(change, Appended)]
        journal.write(b" and half\n")
    send(pair)
    assert mirror.directory.journal_file.read_text().splitlines()[-2:] == ["of the driver", "half and half"]


def test_a_run_that_was_killed_here_is_continued_there_with_all_its_metrics(tmp_path, here, expected):
    training = ToyTraining(tmp_path / "before")
    training.train(4)
    training.save()
    training.train(1)
    shutil.copytree(tmp_path / "before", here, symlinks=True)  # as kill -9 leaves it, its log beside the metrics
    training.stop()
    assert (RunStore(here).named(NAME).path / "metrics.db-wal").stat().st_size > 0
    with closing(RunMirror(here, NAME)) as mirror:
        machine = Machine(tmp_path, mirror)
        assert machine.training.step == 4
        machine.training.finish(TOTAL)
        send((mirror, machine), is_last=True)
        assert rows_of(mirror.directory) == expected[1]
        assert not list(mirror.directory.path.glob("metrics.db-*"))


def test_a_new_run_is_observed_when_its_first_report_is_complete(pair, here, monkeypatch):
    mirror, machine = pair
    machine.training.train(2)
    machine.training.save()
    monkeypatch.setattr("palaestra.cluster.training.run_sender.MAX_REPORT_BYTES", 500)
    reports = list(machine.reports())
    assert len(reports) > 3
    for report in reports[:-1]:
        mirror.apply(report)
        assert RunStore(here).list() == []
    mirror.apply(reports[-1])
    assert [record.name for record in RunStore(here).list()] == [NAME]
    assert RunNames(here).find(NAME) == machine.training.directory.id
    assert_resumable(here)


def test_a_full_disk_keeps_what_was_received_until_there_is_room(pair, monkeypatch, caplog):
    mirror, machine = pair
    send(pair)
    machine.training.train(1)
    machine.training.save()
    write = run_mirror.write_atomic

    def refuse(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_mirror, "write_atomic", refuse)
    send(pair)
    mirror.retry()
    assert mirror.is_behind
    assert caplog.text.count("No space left on device") == 1
    assert durable.committed_epochs(mirror.directory.checkpoints) == []
    monkeypatch.setattr(run_mirror, "write_atomic", write)
    mirror.retry()
    assert not mirror.is_behind
    assert durable.committed_epochs(mirror.directory.checkpoints) == [1]
    assert rows_of(mirror.directory) == rows_of(machine.training.directory)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", ".lock", "logs/.x", "", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(pair, name, tmp_path):
    mirror, _ = pair
    send(pair)
    before = sorted(tmp_path.rglob("*"))
    for change in (FilePatch(name, 1, ((0, b"x"),)), Appended(name, b"x"), FileRemoved(name)):
        with pytest.raises(PalaestraError, match="does not belong"):
            mirror.apply(RunReport(mirror.directory.id, (change,)))
        mirror._pending.clear()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_checkpoint_whose_bytes_changed_meanwhile_is_refused(pair):
    mirror, machine = pair
    machine.training.train(1)
    machine.training.save()
    (report,) = machine.reports()
    changes = [
        CheckpointSaved(one.epoch, one.sidecar, {name: data[:-1] + b"?" for name, data in one.parts.items()})
        if isinstance(one, CheckpointSaved)
        else one
        for one in report.changes
    ]
    with pytest.raises(DamagedFile, match="other files than its sidecar names"):
        mirror.apply(RunReport(report.run_id, tuple(changes)))


def test_files_of_another_run_are_refused(pair):
    mirror, _ = pair
    send(pair)
    with pytest.raises(RunFailed, match="is not the run 'toy'"):
        mirror.apply(RunReport("01ARZ3NDEKTSV4RRFFQ69G5FAV", ()))
    with pytest.raises(RunFailed, match="'../x'"):
        mirror.apply(RunReport("../x", ()))


def test_a_name_that_was_taken_meanwhile_is_refused_and_nothing_is_left(pair, here):
    mirror, machine = pair
    machine.training.train(1)
    other = ToyTraining(here)
    other.stop()
    with pytest.raises(UsageError, match="already a run called 'toy'"):
        send(pair)
    mirror.close()
    assert [record.id for record in RunStore(here).list()] == [other.directory.id]
    assert not list(here.glob(".new-*"))


def test_a_free_name_is_not_that_of_another_run(here, monkeypatch):
    ToyTraining(here).stop()
    given = iter([NAME, "calm-jade-fox"])
    monkeypatch.setattr(run_mirror, "nickname", lambda: next(given))
    assert free_name(here) == "calm-jade-fox"


def test_the_status_of_the_machine_that_trains_keeps_its_own_process(tmp_path, here):
    with closing(RunMirror(here, NAME)) as mirror:
        machine = Machine(tmp_path, mirror)
        send((mirror, machine))
        second = tmp_path / "second"
        second.mkdir()
        receive(second, mirror.contents(), NAME)
        machine.lose()
    assert read_written_record(RunStore(second).named(NAME)).pid == os.getpid()
