import signal
import threading

import pytest

from palaestra.api import train
from palaestra.contracts.run import RunRequest, RunState
from palaestra.runs.journal import read_journal
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.workers.evaluate_kind import EvaluateConfig
from palaestra.workers.started import main

TINY = {"total_steps": 64, "ppo.env_count": 2, "ppo.horizon": 16, "ppo.minibatch_size": 16, "sinks.tensorboard": False}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("judge")
    return train("cartpole", run="trained", runs_root=root, **TINY).directory


def evaluation(trained, **settings):
    config = EvaluateConfig(target=f"{trained.id}:latest", **settings).model_dump(mode="json")
    return RunStore(trained.path.parent).create(RunRequest("evaluate", "trained", {}), config)


def test_an_evaluation_is_a_run_whose_results_lie_with_the_judged_one(trained):
    directory = evaluation(trained, episodes=3)
    assert main(directory) == 0
    record = read_record(directory)
    assert (record.state, record.agent_step, record.total_steps) == (RunState.FINISHED, 3, 3)
    batches = [entry for entry in read_journal(trained.journal_file) if entry.event == "eval.batch"]
    assert batches[-1].data["episodes"] == 3
    assert record.summary["mean"] == pytest.approx(batches[-1].data["mean"])


def test_batch_after_batch_until_it_is_stopped(trained):
    directory = evaluation(trained, episodes=1, repeat=True)
    watcher = threading.Thread(target=stop_after_two_batches, args=(directory,))
    watcher.start()
    assert main(directory) == 143
    watcher.join()
    record = read_record(directory)
    assert (record.state, record.exit_code) == (RunState.CANCELLED, 143)
    assert record.epoch >= 1


def stop_after_two_batches(directory):
    while read_record(directory).epoch < 1:
        pass
    signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)


def test_a_checkpoint_that_is_gone_is_a_failure_by_name(trained):
    directory = evaluation(trained, episodes=1)
    text = directory.config_file.read_text().replace(f"{trained.id}:latest", f"{trained.id}:999")
    directory.config_file.write_text(text)
    assert main(directory) == 3
    assert "999" in read_record(directory).failure
