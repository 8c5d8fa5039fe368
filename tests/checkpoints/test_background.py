import threading

import pytest
import torch

from palaestra.checkpoints.background import BackgroundSaver
from palaestra.checkpoints.files import RealFileSystem, SaveFailed
from palaestra.checkpoints.manager import CheckpointManager


class SlowDisk(RealFileSystem):
    """Stops before its first write until it is let go."""

    def __init__(self):
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def write_temporary(self, path, data):
        self.reached.set()
        assert self.go_on.wait(30)
        super().write_temporary(path, data)


@pytest.fixture
def disk():
    return SlowDisk()


@pytest.fixture
def slow(tmp_path, disk):
    return CheckpointManager(tmp_path, fs=disk)


@pytest.mark.fault("C18")
def test_what_is_saved_are_the_values_when_it_was_asked(slow, disk, policy, describe):
    moment = torch.ones(3)
    wanted = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    with BackgroundSaver(slow) as saver:
        assert saver.save(policy, describe(1), {"moment": moment})
        assert disk.reached.wait(30)
        with torch.no_grad():
            for tensor in [*policy.parameters(), *policy.buffers(), moment]:
                tensor.add_(1)
        disk.go_on.set()
    point = slow.load_for_resume()
    assert all(torch.equal(point.weights[name], tensor) for name, tensor in wanted.items())
    assert torch.equal(point.trainer_state["moment"], torch.ones(3))


@pytest.mark.fault("C19")
def test_a_save_that_comes_too_soon_is_skipped_and_counted(slow, disk, policy, describe):
    with BackgroundSaver(slow) as saver:
        assert saver.save(policy, describe(1))
        assert disk.reached.wait(30)
        assert not saver.save(policy, describe(2))
        assert not saver.save(policy, describe(3))
        assert saver.skipped == 2
        disk.go_on.set()
        assert saver.wait().epoch == 1
        assert saver.save(policy, describe(4))
    assert [one.epoch for one in slow.list_all_checkpoints()] == [1, 4]


def test_a_failure_is_raised_at_the_next_chance(tmp_path, policy, describe):
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(SaveFailed):
        with BackgroundSaver(CheckpointManager(tmp_path)) as saver:
            saver.save(policy, describe(1))


def test_waiting_for_nothing_is_none(manager):
    with BackgroundSaver(manager) as saver:
        assert saver.wait() is None


def test_what_must_be_on_disk_before_is_done_in_the_same_thread_and_first(slow, disk, policy, describe):
    seen = []

    def before():
        seen.append((threading.current_thread() is threading.main_thread(), disk.reached.is_set()))

    with BackgroundSaver(slow) as saver:
        saver.save(policy, describe(1), before=before)
        assert disk.reached.wait(30)
        disk.go_on.set()
    assert seen == [(False, False)]


def test_one_can_wait_and_ask_later_what_came_of_it(slow, disk, policy, describe):
    with BackgroundSaver(slow) as saver:
        assert saver.is_done
        saver.save(policy, describe(1))
        assert disk.reached.wait(30)
        assert not saver.is_done
        disk.go_on.set()
        saver.join()
        assert saver.is_done
        assert saver.wait().epoch == 1
