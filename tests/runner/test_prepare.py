from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack

import pytest

from palaestra.core.errors import MissingExtra, NotFound, UsageError
from palaestra.core.run import RunState
from palaestra.evaluation import background
from palaestra.runner.job import TrainingJob, TrainOutcome
from palaestra.runner.prepare import PreparedRun, prepare_run
from palaestra.runner.train import run_training
from palaestra.runs.journal import read_journal
from palaestra.runs.lock import run_lock
from palaestra.runs.status import read_record


@pytest.fixture
def job(tmp_path, request_of, small_config):
    return lambda name="small", **changes: TrainingJob(request_of(name), small_config(**changes), tmp_path, quiet=True)


def test_a_prepared_run_is_locked_and_running_until_the_stack_is_closed(job):
    with ExitStack() as stack:
        run = prepare_run(job(), stack)
        assert isinstance(run, PreparedRun)
        directory = run.session.directory
        assert (run.is_found, run.resumed, run.state.env_steps) == (False, None, 0)
        assert read_record(directory).state is RunState.RUNNING
        with pytest.raises(UsageError, match="being trained by process"), run_lock(directory):
            pass
    with run_lock(directory):
        pass


def test_a_run_that_was_interrupted_is_prepared_at_its_newest_checkpoint(job):
    run_training(job())
    longer = job(total_steps=256)
    with ExitStack() as stack:
        run = prepare_run(TrainingJob(**{**vars(longer), "accept_changes": frozenset({"total_steps"})}), stack)
        assert (run.is_found, run.resumed.epoch, run.state.env_steps) == (True, 4, 128)
    assert [entry.event for entry in read_journal(run.session.directory.journal_file)][-1] == "config.changed"


def test_a_finished_run_gives_its_outcome_and_is_not_opened(job):
    first = run_training(job())
    before = read_record(first.directory)
    with ExitStack() as stack:
        again = prepare_run(job(), stack)
        assert isinstance(again, TrainOutcome)
        with run_lock(first.directory):
            pass
    assert (again.record, again.metrics) == (before, first.metrics)


@pytest.mark.parametrize(
    ("changes", "error"),
    [({"env": {"id": "CartPole-v9"}}, NotFound), ({"loggers": {"plugins": ["tensorbord"]}}, NotFound)],
)
def test_a_refused_job_leaves_nothing_on_disk(job, tmp_path, changes, error):
    with pytest.raises(error), ExitStack() as stack:
        prepare_run(job(**changes), stack)
    assert list(tmp_path.iterdir()) == []


def test_remote_evaluation_without_ray_is_refused_before_the_run_is_created(job, tmp_path, monkeypatch):
    monkeypatch.setattr(background, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra), ExitStack() as stack:
        prepare_run(job(evaluate_interval=2, evaluate_remote=True), stack)
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, {limits})
from palaestra.core.errors import UsageError
from palaestra.runner.prepare import require_open_files
try:
    require_open_files()
except UsageError as error:
    print(error)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.fault("G15")
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ((64, 64), ["(64, 64)"]),
        ((30, 200), ["(200, 200)"]),
        ((63, 63), ["This process may open only 63 files; training needs at least 64.", "(63, 63)"]),
    ],
)
def test_too_few_are_raised_as_far_as_they_can_be_or_refused(limits, said):
    """In a process of its own: a hard limit that was lowered stays low."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM.format(limits=limits)], capture_output=True, text=True)
    lines = ended.stdout.splitlines()
    assert len(lines) == len(said), ended.stderr
    assert all(line.startswith(text) for line, text in zip(lines, said, strict=True))


@pytest.mark.fault("G15")
@pytest.mark.slow
def test_a_training_with_twelve_files_says_so_in_one_line_and_leaves_nothing(tmp_path):
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12));"
        "from palaestra.cli.main import main; raise SystemExit(main(['train', 'cartpole', 'total_steps=2000']))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.startswith("palaestra: This process may open only 12 files")
    assert "ulimit -n" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []
