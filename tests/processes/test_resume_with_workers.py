"""Whole trainings whose environments other processes step: the same bytes as alone, also after kill -9."""

import random
import signal
from pathlib import Path

import pytest

from palaestra.core.run import RunState
from palaestra.runs.journal import read_journal
from palaestra.runs.status import read_record
from palaestra.training.state import env_seeds

SETTINGS = [
    "ppo.horizon=16",
    "ppo.minibatch_size=24",
    "ppo.update_epochs=1",
    "checkpoints.save_interval=1",
    "seed=3",
    "loggers.tensorboard=false",
    "--quiet",
]

LIMIT = "env.max_episode_steps=20"  # so that episodes end in every update


def arguments(name: str, recipe: str, epochs: int, *more: str) -> list[str]:
    return ["train", recipe, "ppo.env_count=3", f"total_steps={epochs * 48}", *SETTINGS, f"run={name}", *more]


@pytest.mark.full
@pytest.mark.slow
def test_two_processes_killed_and_continued_by_three_end_with_the_bytes_of_one_that_never_stopped(
    server, differences, wait_until
):
    alone = server.start(*arguments("alone", "mountaincar", 12, LIMIT))
    assert alone.wait() == 0, alone.err.read_text()
    trainer = server.start(*arguments("killed", "mountaincar", 12, LIMIT, "env.workers=1"))
    wait_until(lambda: len(server.saved_epochs("killed")) >= 3, "three checkpoints")
    trainer.send(signal.SIGKILL)
    assert trainer.wait() == -signal.SIGKILL, trainer.err.read_text()
    again = server.start(*arguments("killed", "mountaincar", 12, LIMIT, "env.workers=2", "--override", "env.workers"))
    assert again.wait() == 0, again.err.read_text()
    killed = server.run("killed")
    assert differences(killed, server.run("alone")) == []
    [resumed] = [entry.data for entry in read_journal(killed.journal_file) if entry.event == "run.resumed"]
    assert resumed["exact"]


@pytest.mark.full
def test_mujocos_batch_killed_and_continued_ends_with_the_bytes_of_one_that_never_stopped(server, differences):
    pytest.importorskip("mujoco")
    for name, workers in (("single", 0), ("batch", 1)):
        trainer = server.start(*arguments(name, "halfcheetah", 8, f"env.workers={workers}"))
        assert trainer.wait() == 0, trainer.err.read_text()
    server.kill_again_and_again(
        arguments("killed-batch", "halfcheetah", 8, "env.workers=1"), "killed-batch", 2, random.Random(3)
    )
    assert differences(server.run("killed-batch"), server.run("batch")) == []
    # Fields of MuJoCo that no step reads are saved as they are, and a batch has others there.
    others = [path for path in differences(server.run("batch"), server.run("single")) if ".envs." not in path]
    assert others == []


@pytest.mark.full
def test_an_environment_that_dies_in_a_worker_ends_the_run_with_its_name(palaestra):
    beside = str(Path(__file__).parents[1] / "envs")
    culprit = env_seeds(3, 3)[2]
    done = palaestra(
        *["train", "cartpole", "run=doomed", "env.id=odd_envs:Odd-v0", "env.workers=1"],
        *["env.kwargs.what=die", f"env.kwargs.culprit={culprit}", "ppo.env_count=3", "total_steps=96", *SETTINGS],
        variables={"PYTHONPATH": beside},
    )
    assert done.code == 1
    assert "was ended by SIGKILL" in done.err
    assert f"environment 2 (seed {culprit}) was at step 2 of its episode" in done.err
    assert "Traceback" not in done.err
    record = read_record(palaestra.run("doomed"))
    assert (record.state, record.exit_code) == (RunState.FAILED, 1)
