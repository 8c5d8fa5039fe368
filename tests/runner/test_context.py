from contextlib import ExitStack

import pytest

from palaestra.algorithms.group import Group
from palaestra.runner import context as context_module
from palaestra.runner.context import run_context
from palaestra.runner.job import TrainingJob
from palaestra.runner.prepare import prepare_run
from palaestra.runner.saving import FollowerSaver, Saver
from palaestra.runner.signals import StopRequest
from palaestra.runner.train import run_training
from palaestra.runs.journal import read_journal


@pytest.fixture
def job(tmp_path, request_of, small_config):
    def make(**changes):
        return TrainingJob(request_of("small"), small_config(**changes), tmp_path, quiet=True, profile=True)

    return make


@pytest.fixture
def prepared(job):
    with ExitStack() as stack:
        yield prepare_run(job(), stack)


def events(run) -> list[str]:
    return [entry.event for entry in read_journal(run.session.directory.journal_file)]


def test_the_context_holds_the_parts_of_the_prepared_run(prepared):
    stop = StopRequest()
    with run_context(prepared, stop) as context:
        assert (context.state, context.session, context.stop) == (prepared.state, prepared.session, stop)
        assert context.directory == prepared.session.directory
        assert isinstance(context.saver, Saver)
        assert (context.evaluations.outstanding, context.profile) == (0, True)


def test_opening_it_records_the_start_and_writes_metrics_until_it_is_closed(prepared):
    assert "run.started" not in events(prepared)
    with run_context(prepared, StopRequest()) as context:
        assert events(prepared)[-1] == "run.started"
        assert prepared.session.directory.metrics_file.exists()
        assert "metrics" in context.loggers.names
    assert context.loggers.names == []


def test_a_continued_run_has_the_savers_counts_back(job, tmp_path):
    run_training(job(checkpoints={"save_interval": 1}))
    longer = TrainingJob(**{**vars(job(total_steps=256)), "accept_changes": frozenset({"total_steps"})})
    with ExitStack() as stack:
        run = prepare_run(longer, stack)
        with run_context(run, StopRequest()) as context:
            assert context.saver.saved_epoch == 4
            assert context.saver.seconds_before > 0
        assert events(run)[-1] == "run.resumed"


def test_a_follower_writes_nothing_and_is_not_profiled(prepared):
    prepared.state.group = type("Second", (Group,), {"rank": 1, "world_size": 2})()
    with run_context(prepared, StopRequest()) as context:
        assert isinstance(context.saver, FollowerSaver)
        assert context.loggers.names == []
        assert not context.profile


@pytest.mark.parametrize(("is_found", "commit"), [(True, "now"), (False, "when it was created")])
def test_git_is_queried_again_only_when_the_run_existed(prepared, monkeypatch, is_found, commit):
    monkeypatch.setattr(context_module, "describe_git", lambda _folder: {"commit": "now"})
    monkeypatch.setattr(context_module, "read_json", lambda _file: {"git": {"commit": "when it was created"}})
    run = type(prepared)(**{**vars(prepared), "is_found": is_found})
    assert context_module._git_commit(run) == commit
