import logging
from dataclasses import replace

import pytest

from palaestra.algorithms.group import Group
from palaestra.core.run import RunState
from palaestra.runner.following import FollowerSaver, FollowerSession
from palaestra.runner.loop import TrainingLoop


class Second(Group):
    """The second of two ranks, to whom nobody answers."""

    rank = 1
    world_size = 2

    def __init__(self) -> None:
        self.gathered = 0

    def gather_bytes(self, data):
        self.gathered += 1
        return []


@pytest.fixture
def session(bench, clock):
    return FollowerSession(bench.directory, 128, clock)


def test_a_follower_keeps_account_and_writes_nothing(bench, session, caplog):
    before = {path: path.read_bytes() for path in bench.directory.path.rglob("*") if path.is_file()}
    caplog.set_level(logging.INFO, "palaestra")
    session.beat(1, 32, 10.0, {})
    session.stopping("SIGTERM")
    session.cancelled("SIGTERM", 143)
    assert (session.record.state, session.record.exit_code, session.record.epoch) == (RunState.CANCELLED, 143, 1)
    assert {path: path.read_bytes() for path in bench.directory.path.rglob("*") if path.is_file()} == before
    assert "run.cancelled" in caplog.text


def test_a_follower_goes_through_the_loop_and_gives_its_state_at_every_save(bench, session):
    bench.state.group = Second()
    saver = FollowerSaver()
    loop = TrainingLoop(replace(bench.context(saver=saver), session=session))
    assert loop.run() is True
    assert saver.saved_epoch == bench.state.iteration == 2  # 128 steps, 64 of them per iteration of two ranks
    assert bench.state.group.gathered == 2 * 2  # a report and a state each time
    assert list(bench.directory.checkpoints.iterdir()) == []


def test_a_follower_knows_which_epoch_was_saved():
    saver = FollowerSaver()
    assert saver.last_saved == "none"
    saver.restore({}, 7)
    assert saver.last_saved == "epoch 7"
