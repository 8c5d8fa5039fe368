"""What the services of a soak waits for, and how long."""

import contextlib
import os
import subprocess

import pytest

from palaestra.core.errors import NotFound, PalaestraError, RunFailed
from palaestra.core.metrics_logger import Sample
from palaestra.daemon.monitor_handle import MonitorRecord
from palaestra.daemon.process_tree import find_process
from palaestra.evaluation.summary import append_batch
from palaestra.runs.directory import RunDirectory
from palaestra.runs.metrics.writer import MetricsWriter
from tools.reliability import soak_services
from tools.reliability.soak_services import EVALUATION, PROGRAM, RUNS, VIEWERS, SoakServices, Viewer, until


def test_waiting_ends_with_the_condition():
    answers = iter([False, False, True])
    until("the third answer", lambda: next(answers))
    assert list(answers) == []


def test_waiting_in_vain_is_a_finding_with_what_was_waited_for():
    with pytest.raises(RunFailed, match="Timed out after 0 s waiting until pigs fly"):
        until("pigs fly", lambda: False, seconds=0.0)


@pytest.mark.parametrize("refusal", [NotFound("no daemon"), ConnectionRefusedError("no daemon")])
def test_a_refusal_or_a_closed_interface_is_no_reply_and_reported_in_the_end(refusal):
    def question():
        raise refusal

    with pytest.raises(RunFailed, match=r"waiting until somebody answers \(no daemon\)"):
        until("somebody answers", question, seconds=0.0)


def test_a_mistake_of_our_own_is_not_waited_away():
    with pytest.raises(ZeroDivisionError):
        until("one over zero is something", lambda: 1 / 0)


def test_a_viewer_without_a_daemon_waits_and_can_be_stopped(tmp_path):
    viewer = Viewer(tmp_path, RUNS[0])
    viewer.start()
    viewer.stop()
    viewer.join(10)
    assert not viewer.is_alive()
    assert (viewer.frames, viewer.entries) == (0, 0)


def test_there_are_as_many_viewers_as_promised():
    assert VIEWERS == 8


@pytest.fixture
def services(tmp_path, monkeypatch):
    """With runs on disk, whose daemon and evaluation leave at once."""
    monkeypatch.setattr(soak_services, "PROGRAM", ("true",))
    services = SoakServices(tmp_path)
    for name in RUNS:
        services.ids[name] = f"01{name}"
        RunDirectory(tmp_path / services.ids[name]).checkpoints.mkdir(parents=True)
    yield services
    services.daemon.wait()
    if services.evaluation is not None:
        services.evaluation.wait()


def test_the_newest_weights_are_those_of_the_highest_number_not_of_the_last_name(services):
    assert services.newest_weights(RUNS[0]) is None
    for epoch in (9980, 10000, 10020):
        (services.directory(RUNS[0]).checkpoints / f"model_{epoch:04d}.safetensors").touch()
    assert services.newest_weights(RUNS[0]).name == "model_10020.safetensors"


@pytest.mark.parametrize(
    ("state", "written_at", "is_right"),
    [("running", 101.0, True), ("running", 100.0, False), ("running", None, False), ("stopping", 101.0, False)],
)
def test_a_training_is_at_work_when_it_has_written_something_since(services, monkeypatch, state, written_at, is_right):
    me = find_process(os.getpid())
    monkeypatch.setattr(services, "state", lambda _: state)
    monkeypatch.setattr(soak_services, "read_monitor_record", lambda _: MonitorRecord(1, me, me))
    with MetricsWriter(services.directory(RUNS[0]).metrics_file) as writer:
        if written_at is not None:
            writer.write(Sample(1, {"a": 1.0}, at=written_at))
    with contextlib.nullcontext() if is_right else pytest.raises(PalaestraError, match=RUNS[0]):
        assert services._at_work(RUNS[0], 100.0)


def test_an_evaluation_that_ended_is_begun_again_when_evaluations_are_counted(services):
    append_batch(services.directory(RUNS[1]), {"mean": 1.0})
    assert services._count_evaluations() == 1
    first = services.evaluation
    first.wait()
    assert services._count_evaluations() == 1
    assert services.evaluation is not first


def test_the_evaluation_of_a_soak_is_one_that_the_command_line_understands(tmp_path):
    """It once was not, ended at once every time, and no soak noticed."""
    variables = {**os.environ, "PALAESTRA_RUNS_DIR": str(tmp_path)}
    done = subprocess.run([*PROGRAM, *EVALUATION], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == NotFound.exit_code, done.stderr
    assert RUNS[1] in done.stderr
