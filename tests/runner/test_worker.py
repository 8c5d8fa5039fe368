import pytest

from palaestra.config.resolve import build_request
from palaestra.core.errors import UsageError
from palaestra.core.run import RunRequest, RunState
from palaestra.policies.shipped import GRAPHS
from palaestra.runner.worker import main, record_refusal, stored_config
from palaestra.runs.documents import read_config
from palaestra.runs.journal import read_journal
from palaestra.runs.status import read_record, read_written_record, with_state, write_record
from palaestra.runs.store import RunStore

TINY = {
    "total_steps": 128,
    "ppo": {"env_count": 2, "horizon": 16, "minibatch_size": 16},
    "checkpoints": {"save_interval": 1},
    "loggers": {"tensorboard": False},
}


def prepared(root, overrides=None, kind="native", **fields):
    request, config = build_request("cartpole", {**TINY, **(overrides or {})})
    requested = RunRequest(kind, "cartpole", request.config, **fields)
    return RunStore(root).create(requested, config.model_dump(mode="json"), "prepared", config.total_steps)


def test_a_prepared_run_is_trained_in_its_own_directory(tmp_path):
    directory = prepared(tmp_path)
    assert main(directory) == 0
    record = read_record(directory)
    assert (record.state, record.agent_step, record.name) == (RunState.FINISHED, 128, "prepared")
    assert len(RunStore(tmp_path).list()) == 1
    assert "run.started" in [entry.event for entry in read_journal(directory.journal_file)]


def test_one_that_a_daemon_marked_as_running_is_trained_all_the_same(tmp_path):
    directory = prepared(tmp_path)
    write_record(directory, with_state(read_written_record(directory), RunState.RUNNING, pid=1))
    assert main(directory) == 0
    assert read_record(directory).state is RunState.FINISHED


def test_a_refused_run_is_recorded_in_its_own_files(tmp_path, capsys):
    directory = prepared(tmp_path, {"env": {"id": "NoSuch-v0"}})
    assert main(directory) == 3
    record = read_record(directory)
    assert record.state is RunState.FAILED
    assert "NoSuch" in record.failure
    assert "NoSuch" in capsys.readouterr().err
    assert [entry.event for entry in read_journal(directory.journal_file)][-1] == "run.failed"


def test_a_failure_that_the_run_recorded_is_not_recorded_again(tmp_path):
    directory = prepared(tmp_path)
    own = with_state(read_written_record(directory), RunState.FAILED, failure="its own words")
    write_record(directory, own)
    record_refusal(directory, UsageError("something else"))
    assert read_written_record(directory) == own


def test_a_policy_named_by_its_file_is_written_out_once(tmp_path):
    graph = tmp_path / "mine.yaml"
    graph.write_text((GRAPHS / "mlp.yaml").read_text())
    directory = prepared(tmp_path / "runs", {"policy": {"graph": str(graph)}})
    first = stored_config(directory)
    graph.unlink()
    assert stored_config(directory) == first
    assert read_config(directory)["policy"]["graph"] != str(graph)


def test_another_kind_is_refused_by_name(tmp_path):
    directory = prepared(tmp_path, kind="cook")
    assert main(directory) == 2
    assert "'cook'" in read_record(directory).failure


@pytest.mark.slow
def test_two_processes_train_a_prepared_run_together(tmp_path):
    directory = prepared(tmp_path, nproc=2)
    assert main(directory) == 0
    assert (read_record(directory).state, read_record(directory).agent_step) == (RunState.FINISHED, 128)
