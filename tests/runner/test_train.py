"""The whole worker in this process: what it leaves on disk, and how it leaves."""

import signal
import traceback
from functools import partial
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import torch

import palaestra
from palaestra.checkpoints.files import SaveFailed
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.cli.main import main
from palaestra.core.errors import NonFinite, NotFound, RunFailed, UsageError
from palaestra.core.run import RunRequest, RunState
from palaestra.loggers import build as build_module
from palaestra.loggers.downsampling import Downsampler
from palaestra.loggers.fanout import LoggerFanout
from palaestra.runner import context as context_module
from palaestra.runner import loop as loop_module
from palaestra.runner.job import TrainingJob
from palaestra.runner.train import run_training
from palaestra.runs import environment
from palaestra.runs.documents import read_config
from palaestra.runs.journal import read_journal
from palaestra.runs.lock import run_lock
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore


@pytest.fixture
def run(tmp_path, small_config):
    def start(accept=(), resume_only=False, name="small", **changes):
        request = RunRequest(kind="native", recipe="", config={}, name=name)
        return run_training(
            TrainingJob(
                request,
                small_config(**changes),
                tmp_path / "runs",
                resume_only=resume_only,
                accept_changes=frozenset(accept),
                quiet=True,
            )
        )

    return start


@pytest.fixture
def small(tmp_path):
    """The run called small, once there is one."""
    return lambda: RunStore(tmp_path / "runs").named("small")


def events(directory) -> list[str]:
    return [entry.event for entry in read_journal(directory.journal_file)]


def epochs(directory) -> list[int]:
    return [checkpoint.epoch for checkpoint in CheckpointManager(directory).list_all_checkpoints()]


def rows(directory):
    with MetricsReader(directory.metrics_file) as reader:
        return reader.rows()


class Camera(gymnasium.Env):
    """Images of noise; episodes of four steps."""

    observation_space = gymnasium.spaces.Box(0, 255, (12, 12, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._look(), {}

    def step(self, action):
        self.steps += 1
        return self._look(), 1.0, False, self.steps == 4, {}

    def _look(self):
        return self.np_random.integers(0, 256, (12, 12, 3), np.uint8)


gymnasium.register("palaestra-tests/Camera-v0", Camera)


def test_images_are_trained_with_the_cnn_and_a_run_goes_on_with_it(run):
    directory = run(env="palaestra-tests/Camera-v0", total_steps=64).directory
    assert read_config(directory)["policy"]["graph"] == "cnn"
    newest = CheckpointManager(directory).list_all_checkpoints()[-1]
    assert newest.policy["graph"] == "cnn"
    again = run(env="palaestra-tests/Camera-v0", total_steps=128, accept=["total_steps"])
    assert again.record.agent_step == 128


def stop_at(monkeypatch, iteration: int, *signals: signal.Signals) -> None:
    """As if the signals came while the report of `iteration` is taken."""
    take = loop_module.TrainingLoop._handle

    def take_and_stop(self, report):
        take(self, report)
        if report.iteration == iteration:
            for number in signals:
                signal.raise_signal(number)

    monkeypatch.setattr(loop_module.TrainingLoop, "_handle", take_and_stop)


def test_a_run_leaves_status_journal_checkpoints_and_metrics(run):
    outcome = run()
    assert (outcome.exit_code, outcome.record.state) == (0, RunState.FINISHED)
    assert (outcome.record.epoch, outcome.record.agent_step) == (4, 128)
    assert read_record(outcome.directory) == outcome.record
    assert events(outcome.directory) == ["run.created", "run.started", *["checkpoint.saved"] * 4, "run.finished"]
    assert epochs(outcome.directory) == [1, 2, 3, 4]
    assert "losses/entropy" in outcome.metrics
    assert not [name for name in outcome.metrics if name.startswith("time/") or name == "charts/SPS"]


def test_a_finished_run_is_not_trained_again(run, caplog):
    first = run()
    before = events(first.directory)
    again = run()
    assert (again.exit_code, again.metrics) == (0, first.metrics)
    assert "is finished at step 128" in caplog.text
    assert events(first.directory) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stopped_and_continued_it_does_the_same_as_without_a_stop(run, monkeypatch, number, code):
    whole = run(name="whole")
    with monkeypatch.context() as patch:
        stop_at(patch, 2, number)
        stopped = run()
    assert (stopped.exit_code, stopped.record.state, epochs(stopped.directory)) == (code, RunState.CANCELLED, [1, 2])
    torch.manual_seed(99)  # nothing may come from what this process did before
    continued = run()
    assert continued.exit_code == 0
    assert events(continued.directory).count("run.resumed") == 1
    assert rows(continued.directory) == rows(whole.directory)
    last = "model_0004.safetensors"
    weights = [(one.directory.checkpoints / last).read_bytes() for one in (whole, continued)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("iteration", [4, 7])
def test_stopped_within_an_interval_of_iterations_it_ends_with_the_same_metrics(run, monkeypatch, iteration):
    """As a training of many thousand iterations, where one row stands for several."""
    monkeypatch.setattr(build_module, "Downsampler", partial(Downsampler, single_iterations=2))
    whole = run(name="whole", total_steps=9 * 32)
    with monkeypatch.context() as patch:
        stop_at(patch, iteration, signal.SIGTERM)
        stopped = run(total_steps=9 * 32)
    assert stopped.record.epoch == iteration
    continued = run(total_steps=9 * 32)
    assert rows(continued.directory) == rows(whole.directory)
    assert sorted({row[1] // 32 for row in rows(whole.directory)}) == [1, 2, 4, 8, 9]
    assert continued.metrics == whole.metrics


def test_checkpoints_name_the_commit_that_trained_them_also_when_it_changed_in_between(run, monkeypatch):
    commits = iter(["first", "second", "third"])
    for module in (environment, context_module):
        monkeypatch.setattr(module, "describe_git", lambda _directory: {"commit": next(commits), "dirty": False})
    with monkeypatch.context() as patch:
        stop_at(patch, 2, signal.SIGTERM)
        directory = run().directory
    assert {one.git_commit for one in CheckpointManager(directory).list_all_checkpoints()} == {"first"}
    run()
    assert CheckpointManager(directory).list_all_checkpoints()[-1].git_commit == "second"


def test_a_second_signal_ends_it_without_a_save(run, monkeypatch):
    stop_at(monkeypatch, 2, signal.SIGTERM, signal.SIGINT)
    stopped = run(checkpoints={"save_interval": 0})
    assert (stopped.exit_code, stopped.record.state) == (130, RunState.CANCELLED)
    assert epochs(stopped.directory) == []


def test_a_second_signal_while_the_loggers_are_closed_is_no_traceback(run, monkeypatch):
    really_close = LoggerFanout.close

    def close_and_be_hurried(self):
        really_close(self)
        for number in (signal.SIGTERM, signal.SIGTERM):
            signal.raise_signal(number)

    monkeypatch.setattr(LoggerFanout, "close", close_and_be_hurried)
    outcome = run()
    assert (outcome.exit_code, outcome.record.state) == (0, RunState.FINISHED)


def test_a_second_trainer_is_refused_and_changes_nothing(run, small, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 2, signal.SIGTERM)
        run()
    before = events(small())
    with run_lock(small()), pytest.raises(UsageError, match="'small' is being trained by process"):
        run()
    assert events(small()) == before


@pytest.mark.fault("R6")
def test_another_configuration_is_refused_with_the_difference(run, small, monkeypatch):
    stop_at(monkeypatch, 2, signal.SIGTERM)
    run()
    before = events(small())
    with pytest.raises(UsageError, match="seed") as refused:
        run(seed=8)
    assert "--override seed" in refused.value.hint
    assert events(small()) == before


@pytest.mark.fault("R6")
def test_a_difference_accepted_by_name_is_written_down(run, small):
    run()
    outcome = run(total_steps=192, accept=["total_steps"])
    assert (outcome.exit_code, outcome.record.epoch) == (0, 6)
    assert read_config(small())["total_steps"] == 192
    [entry] = [entry for entry in read_journal(small().journal_file) if entry.event == "config.changed"]
    assert "total_steps" in entry.data["differences"][0]


def test_what_cannot_be_made_leaves_nothing_behind(run, tmp_path):
    with pytest.raises(NotFound, match="CartPole-v9"):
        run(env={"id": "CartPole-v9"})
    with pytest.raises(UsageError, match="hiden"):
        run(policy={"graph": "mlp", "settings": {"hiden": [4]}})
    with pytest.raises(NotFound, match="No run named 'small' to resume"):
        run(resume_only=True)
    assert not (tmp_path / "runs").exists()


@pytest.mark.fault("R9")
def test_a_reward_that_is_not_finite_fails_the_run_and_names_the_last_good_checkpoint(run, small):
    with pytest.raises(NonFinite, match="Update 3 .*last good checkpoint is epoch 2") as failed:
        run(env={"id": "PoisonedForTests-v0", "kwargs": {"at": 40}})
    assert "from the environment" in failed.value.hint
    assert "learning_rate" not in failed.value.hint
    assert failed.value.exit_code == 1
    record = read_record(small())
    assert (record.state, record.exit_code) == (RunState.FAILED, 1)
    assert "not finite" in record.failure
    assert epochs(small()) == [1, 2]
    for tensor in CheckpointManager(small()).load_weights("latest")[0].values():
        assert bool(torch.isfinite(tensor).all())


def test_without_any_checkpoint_it_says_that_there_is_none(run):
    with pytest.raises(NonFinite, match="No checkpoint was saved before it"):
        run(env={"id": "PoisonedForTests-v0", "kwargs": {"at": 1}})


@pytest.mark.fault("C4")
def test_a_disk_that_stays_full_fails_the_run_at_its_end_and_not_before(run, small, monkeypatch):
    save = CheckpointManager.save

    def fail_later(self, policy, checkpoint, trainer_state=None, replay_rows=()):
        if checkpoint.epoch > 1:
            raise SaveFailed("No space left on device.")
        return save(self, policy, checkpoint, trainer_state, replay_rows)

    monkeypatch.setattr(CheckpointManager, "save", fail_later)
    with pytest.raises(RunFailed, match="The last one on disk is epoch 1"):
        run()
    record = read_record(small())
    assert (record.state, record.exit_code, record.agent_step) == (RunState.FAILED, 1, 128)
    assert events(small()).count("checkpoint.failed") == 4  # three by interval, one at the end


@pytest.mark.fault("R10")
def test_an_exception_of_user_code_is_in_status_and_journal_and_still_raised(run, small, monkeypatch):
    def explode(_state):
        raise ZeroDivisionError("of a stranger")
        yield

    monkeypatch.setattr(loop_module, "train", explode)
    with pytest.raises(RunFailed, match="Your code raised ZeroDivisionError: of a stranger") as failed:
        run()
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert read_record(small()).state is RunState.FAILED
    assert "of a stranger" in read_record(small()).failure
    assert "in explode" in read_journal(small().journal_file)[-1].data["traceback"]


def test_the_whole_traceback_is_in_the_log_and_the_users_part_in_the_failure(run, small, monkeypatch):
    def step(_env, _action):
        return {}[3]

    monkeypatch.setattr(gymnasium.registry["PoisonedForTests-v0"].entry_point, "step", step)
    with pytest.raises(RunFailed, match=r"raised KeyError at step 1 of its episode, .*: 3\.") as failed:
        run(env={"id": "PoisonedForTests-v0", "kwargs": {"at": 40}})
    assert "in step\n    return {}[3]" in failed.value.user_traceback
    assert "palaestra/runner" not in failed.value.user_traceback
    lines = small().log_file().read_text().splitlines()
    assert any(line.endswith("palaestra.traceback: KeyError: 3") for line in lines)
    assert any("palaestra/runner/loop.py" in line for line in lines)
    assert str(small().log_file()) in failed.value.hint


def test_every_line_of_the_log_carries_run_and_rank(run, small, monkeypatch):
    monkeypatch.setattr(
        CheckpointManager, "save", lambda *_: (_ for _ in ()).throw(SaveFailed("No space left on device."))
    )
    with pytest.raises(RunFailed):
        run()
    lines = small().log_file().read_text().splitlines()
    assert lines
    assert all(f"run={small().id} rank=0 " in line for line in lines)


class StackRecorder(gymnasium.Env):
    """Keeps the file of every frame that is on the stack in `step`, the outermost first."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    files: ClassVar[list[str]] = []

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        StackRecorder.files[:] = [frame.filename for frame in traceback.extract_stack()]
        return np.zeros(1, np.float32), 1.0, False, False, {}

    def render(self):
        return np.zeros((8, 8, 3), np.uint8)


gymnasium.register("palaestra-tests/StackRecorder-v0", StackRecorder)


def test_from_the_command_to_a_step_of_the_environment_there_are_at_most_ten_frames_of_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_RUNS_DIR", str(tmp_path))
    arguments = ["env.id=palaestra-tests/StackRecorder-v0", "engine=torch", "total_steps=512", "--quiet"]
    assert main(["train", *arguments]) == 0
    package = f"{Path(palaestra.__file__).parent}/"
    ours = [file.removeprefix(package) for file in StackRecorder.files if file.startswith(package)]
    assert (ours[0], ours[-1]) == ("cli/main.py", "envs/vector/in_process.py")
    assert "envs/vector/published.py" in ours, "the live view is on"
    assert len(ours) <= 10, ours
