"""Two ranks, each with a runs folder of its own: the leader's has the run, the other's is empty."""

import re

import pytest

from palaestra.core.run import RunState
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

pytestmark = pytest.mark.slow

BATCH = 2 * 2 * 16  # ranks, environments, steps
WORDS = [
    "train",
    "cartpole",
    "seed=3",
    "ppo.env_count=2",
    "ppo.horizon=16",
    "ppo.minibatch_size=16",
    "checkpoints.save_interval=1",
    "loggers.tensorboard=false",
    "distributed.timeout_seconds=60",
    "--quiet",
]


@pytest.fixture
def apart(together, server, tmp_path):
    def start(*arguments, own=None):
        return together(*arguments, own=own, variables={1: {"PALAESTRA_RUNS_DIR": str(tmp_path / "empty")}})

    return start


def errors(ranks):
    return [rank.err.read_text() for rank in ranks]


def test_a_run_is_resumed_where_only_the_leader_has_it(server, apart, tmp_path):
    ranks = apart(*WORDS, "run=pair", f"total_steps={2 * BATCH}")
    assert [rank.wait() for rank in ranks] == [0, 0], errors(ranks)
    ranks = apart("train", "--resume", "run=pair", f"total_steps={4 * BATCH}", "--override", "total_steps", "--quiet")
    assert [rank.wait() for rank in ranks] == [0, 0], errors(ranks)
    directory = server.run("pair")
    record = read_record(directory)
    assert (record.state, record.epoch) == (RunState.FINISHED, 4)
    digests = [
        re.findall(r"Ended at epoch 4 with weights sha256=(\w{64})", directory.log_file(rank).read_text())
        for rank in (0, 1)
    ]
    assert digests[0] == digests[1] != []
    assert RunStore(tmp_path / "empty").list() == []


def test_a_run_that_the_leader_does_not_have_ends_both_at_once_with_one_cause(apart):
    ranks = apart("train", "--resume", "run=nowhere", "distributed.timeout_seconds=100", "--quiet")
    assert [rank.wait() for rank in ranks] == [3, 1]
    leader, follower = errors(ranks)
    assert "nowhere" in leader
    assert re.search(r"Rank 0 failed first: .*nowhere", follower)


def test_an_interface_of_one_machine_that_does_not_exist_ends_both_with_one_cause(apart):
    ranks = apart(*WORDS, "run=odd", own={1: ["distributed.interface=eth77"]})
    assert [rank.wait() for rank in ranks] == [1, 2]
    leader, follower = errors(ranks)
    assert "has no network interface 'eth77'" in follower
    assert "It has: " in follower
    assert "Rank 1 failed first: distributed.interface=eth77" in leader


def test_a_resuming_rank_with_other_settings_is_refused(server, apart):
    ranks = apart(*WORDS, "run=other", f"total_steps={BATCH}")
    assert [rank.wait() for rank in ranks] == [0, 0], errors(ranks)
    ranks = apart("train", "--resume", "run=other", "--quiet", own={1: ["ppo.gamma=0.5"]})
    assert [rank.wait() for rank in ranks] == [2, 1]
    assert all("Rank 1 has a different configuration" in text for text in errors(ranks))
