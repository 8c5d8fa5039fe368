"""A run that learns from a replay buffer, killed and continued, ends with the same bytes as one that never stopped."""

import random
import signal
import time

import pytest

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.replay_segments import FOLDER
from palaestra.runs.journal import read_journal

pytestmark = pytest.mark.slow

EPOCHS = 24
STEPS = 64  # of each process between two checkpoints
BUFFER = 500  # transitions: it is full before the end, and its oldest ones are overwritten
ALGORITHMS = ("pqn", "dqn", "sac", "td3")
REPLAY = {
    "steps_per_iteration": STEPS,
    "buffer_size": BUFFER,
    "learning_starts": 200,
    "train_interval": 4,
    "gradient_steps": 1,
    "batch_size": 16,
    "n_step": 2,
}
OWN = {
    "pqn": {"horizon": STEPS // 2, "minibatch_size": 16, "update_epochs": 1},
    "dqn": {**REPLAY, "target_interval": 50, "prioritized.enabled": "true"},
    "sac": REPLAY,
    "td3": REPLAY,
}


def words(algorithm, name, *more, ranks=1, engine="auto"):
    settings = [f"{algorithm}.{key}={value}" for key, value in {"env_count": 2, **OWN[algorithm]}.items()]
    return [
        "train",
        "pendulum" if algorithm in {"sac", "td3"} else "cartpole",
        f"algorithm={algorithm}",
        f"engine={engine}",
        f"total_steps={EPOCHS * STEPS * ranks}",
        "seed=3",
        *settings,
        "env.max_episode_steps=30",  # so that many episodes are truncated
        "policy.settings.hidden=[16]",
        "policy.normalize_observations=true",
        "checkpoints.save_interval=1",
        "loggers.tensorboard=false",
        "--quiet",
        f"run={name}",
        *more,
    ]


class Uninterrupted:
    """Runs that were never stopped, one for each algorithm and engine, made when they are first asked for."""

    def __init__(self, server):
        self.server = server

    def __call__(self, algorithm, engine="auto"):
        name = f"{algorithm}-{engine}-uninterrupted"
        if self.server.run(name) is None:
            trainer = self.server.start(*words(algorithm, name, engine=engine))
            assert trainer.wait() == 0, trainer.err.read_text()
        return self.server.run(name)


@pytest.fixture(scope="module")
def uninterrupted(server):
    return Uninterrupted(server)


def resumes(directory):
    return [entry.data for entry in read_journal(directory.journal_file) if entry.event == "run.resumed"]


@pytest.mark.fault("R11")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_killed_three_times_it_ends_with_the_same_bytes(
    server, algorithm, uninterrupted, differences, figure, chaos_seed
):
    name = f"{algorithm}-killed"
    tally = server.kill_again_and_again(words(algorithm, name), name, 3, random.Random(5 + chaos_seed))
    assert (tally.unreadable, tally.lost) == (0, 0)
    assert differences(server.run(name), uninterrupted(algorithm)) == []
    assert all(one["exact"] for one in resumes(server.run(name)))
    figure(f"kills of {algorithm}", tally.kills)


@pytest.mark.fault("R11")
@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ["torch", "native"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_of_ten_kills_of_each_algorithm_nothing_is_lost_and_every_run_exact(
    server, algorithm, engine, uninterrupted, differences, figure, chaos_seed
):
    chance = random.Random(100 + chaos_seed)
    kills = mid_save = unreadable = lost = exact = runs = 0
    while kills < 10:
        name = f"{algorithm}-{engine}-chaos-{runs}"
        tally = server.kill_again_and_again(words(algorithm, name, engine=engine), name, 5, chance)
        runs, kills, mid_save = runs + 1, kills + tally.kills, mid_save + tally.mid_save
        unreadable, lost = unreadable + tally.unreadable, lost + tally.lost
        exact += differences(server.run(name), uninterrupted(algorithm, engine)) == []
    figure(f"kills of {algorithm}, {engine}", kills)
    figure("of them in mid-save", mid_save)
    figure(f"runs exact of {runs}", exact)
    assert (unreadable, lost, exact) == (0, 0, runs)


@pytest.mark.fault("R11")
@pytest.mark.parametrize(
    "algorithm", [pytest.param(name, marks=[] if name == "sac" else pytest.mark.full) for name in ALGORITHMS]
)
def test_two_ranks_killed_at_random_end_with_the_same_bytes(server, together, algorithm, differences, wait_until):
    whole, killed = f"{algorithm}-two", f"{algorithm}-two-killed"
    ranks = together(*words(algorithm, whole, ranks=2))
    assert [rank.wait() for rank in ranks] == [0, 0], [rank.err.read_text() for rank in ranks]
    chance = random.Random(5)
    for kill in range(2):
        ranks = together(*words(algorithm, killed, ranks=2))
        goal = len(server.saved_epochs(killed)) + chance.choice([1, 2, 3])
        wait_until(lambda: len(server.saved_epochs(killed)) >= goal, f"{goal} checkpoints")  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.05))  # not a condition: any instant will do
        ranks[kill % 2].send(signal.SIGKILL)
        assert [rank.wait() for rank in ranks][kill % 2] == -signal.SIGKILL
    ranks = together(*words(algorithm, killed, ranks=2))
    assert [rank.wait() for rank in ranks] == [0, 0], [rank.err.read_text() for rank in ranks]
    assert differences(server.run(killed), server.run(whole)) == []
    assert len(resumes(server.run(killed))) == 2
    segments = CheckpointManager(server.run(killed)).list_all_checkpoints()[-1].replay_segments
    assert {name.partition("_")[0] for name in segments} == (set() if algorithm == "pqn" else {"rank0", "rank1"})


@pytest.mark.fault("R2")
def test_last_observations_that_are_left_out_are_seen_by_the_comparison(server, uninterrupted, differences):
    """The comparison above could not see anything if it did not see this."""
    server.kill_again_and_again(words("dqn", "forgetful", engine="torch"), "forgetful", 3, random.Random(4), "finals")
    assert "weights" in differences(server.run("forgetful"), uninterrupted("dqn", "torch"))


@pytest.fixture
def stopped(server, wait_until):
    """A run that was killed in the middle, by name."""

    def start(name, *more):
        trainer = server.start(*words("dqn", name, *more))
        wait_until(lambda: len(server.saved_epochs(name)) >= 8, "eight checkpoints")
        trainer.send(signal.SIGKILL)
        trainer.wait()
        return server.run(name)

    return start


def segments(directory):
    return sorted((directory.checkpoints / FOLDER).iterdir())


@pytest.mark.fault("C20")
def test_a_damaged_segment_is_named_and_left_out_only_by_name(server, stopped):
    name = "damaged"
    directory = stopped(name)
    path = segments(directory)[0]
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    refused = server(*words("dqn", name))
    assert refused.code == 1
    assert f"{path.name}: its bytes are not those that were saved" in refused.err
    assert "--without-replay-buffer" in refused.err
    assert resumes(directory) == []
    done = server(*words("dqn", name, "--without-replay-buffer"))
    assert done.code == 0, done.err
    (resumed,) = resumes(directory)
    assert (resumed["exact"], resumed["reason"]) == (
        False,
        "The replay buffer was left out (--without-replay-buffer) and is filled anew.",
    )


def test_left_out_of_checkpoints_a_resume_says_that_it_is_inexact(server, stopped):
    name = "small"
    directory = stopped(name, "checkpoints.replay_buffer=false")
    assert not (directory.checkpoints / FOLDER).exists()
    done = server(*words("dqn", name, "checkpoints.replay_buffer=false"))
    assert done.code == 0, done.err
    (resumed,) = resumes(directory)
    assert "checkpoints.replay_buffer=false" in resumed["reason"]
