"""A disk that is really full, and one that is really read-only: a small tmpfs (needs root)."""

import logging
import os
import subprocess

import pytest
import torch
from torch import nn

from palaestra.checkpoints.files import SaveFailed, is_temporary
from palaestra.checkpoints.manager import CheckpointManager


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a tmpfs needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def large_policy():
    return nn.Linear(512, 512)  # 1 MB


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.fault("C4")
def test_a_full_disk_keeps_the_old_and_leaves_no_remains(small_disk, large_policy, describe):
    manager = CheckpointManager(small_disk)
    manager.save(large_policy, describe(1), {"epoch": 1})
    before, wanted = names(manager.directory), large_policy.weight.detach().clone()
    with torch.no_grad():
        large_policy.weight.add_(1)
    with pytest.raises(SaveFailed, match="No space left on device"):
        manager.save(large_policy, describe(2), {"moment": torch.zeros(512, 512)})
    assert names(manager.directory) == before
    assert torch.equal(manager.load_for_resume().weights["weight"], wanted)


@pytest.mark.fault("C4")
def test_when_there_is_room_again_the_next_save_succeeds(small_disk, large_policy, describe):
    manager = CheckpointManager(small_disk)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(5 << 19))
    with pytest.raises(SaveFailed):
        manager.save(large_policy, describe(1))
    ballast.unlink()
    manager.save(large_policy, describe(2))
    assert [one.epoch for one in manager.list_all_checkpoints()] == [2]
    assert not [name for name in names(manager.directory) if is_temporary(name)]


@pytest.mark.fault("C5")
def test_a_disk_that_became_read_only_refuses_saves_and_still_reads(small_disk, policy, describe, caplog):
    manager = CheckpointManager(small_disk)
    manager.save(policy, describe(1), {"epoch": 1})
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(SaveFailed, match="Read-only file system"):
        manager.save(policy, describe(2))
    with pytest.raises(SaveFailed, match=r"checkpoints.*Read-only file system"):
        manager.ensure_writable()
    with caplog.at_level(logging.WARNING):
        assert manager.load_for_resume().checkpoint.epoch == 1
        with manager.in_use(1):
            pass
    assert not caplog.text
