from palaestra.core.run import RunState
from palaestra.runner.job import TrainingJob
from palaestra.runner.outcome import last_metrics, outcome_on_disk
from palaestra.runner.train import run_training


def test_what_a_run_left_on_disk_is_the_outcome_that_its_process_told(tmp_path, small_config, request_of):
    told = run_training(TrainingJob(request_of("small"), small_config(), tmp_path / "runs", quiet=True))
    found = outcome_on_disk(told.directory, 0)
    assert found == told
    assert (found.record.state, found.rank) == (RunState.FINISHED, 0)


def test_timings_are_no_outcome(tmp_path, small_config, request_of):
    told = run_training(TrainingJob(request_of("small"), small_config(), tmp_path / "runs", quiet=True))
    assert "losses/entropy" in last_metrics(told.directory)
    assert "charts/SPS" not in last_metrics(told.directory)
