import logging
import math
import threading

import pytest
import torch

from palaestra.checkpoints import durable
from palaestra.checkpoints.files import SaveFailed
from palaestra.checkpoints.log import read_log
from palaestra.checkpoints.store import CheckpointStore
from palaestra.core.errors import DamagedFile, NotFound, UsageError


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_exact_tree_after_a_save(tmp_path, save):
    save(10)
    assert names(tmp_path) == ["checkpoints"]
    assert names(tmp_path / "checkpoints") == [
        "checkpoint_log.json",
        "model_0010.safetensors",
        "model_0010.yaml",
        "trainer_state_0010.pt",
    ]


def test_weights_and_state_come_back(manager, save, policy):
    saved = save(10, trainer_state={"moment": torch.ones(2), "epoch": 10})
    weights, checkpoint = manager.load_weights()
    assert checkpoint == saved
    assert all(torch.equal(weights[name], tensor) for name, tensor in policy.state_dict().items())
    assert set(weights) == set(policy.state_dict())
    assert torch.equal(manager.load_trainer_state()["moment"], torch.ones(2))


def test_versions_are_filled_in_when_nobody_gave_them(save):
    versions = save(1, versions={}).versions
    assert versions["torch"] == torch.__version__.partition("+")[0] or versions["torch"] == torch.__version__
    assert {"python", "palaestra", "safetensors"} <= set(versions)


@pytest.mark.parametrize("epochs", [[0], [0, 1], [9999, 10000], [10000, 9999], [3, 20, 100]])
def test_latest_is_the_highest_number_whatever_was_written_last(manager, save, epochs):
    for epoch in epochs:
        save(epoch)
    weights, checkpoint = manager.load_weights("latest")
    assert checkpoint.epoch == max(epochs)
    assert float(weights["0.weight"][0, 0]) == max(epochs)


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ({1: -10.0, 2: -3.0, 3: -7.0}, 2),
        ({0: 0.0, 1: None}, 0),
        ({1: math.nan, 2: 1.0, 3: math.inf}, 2),
        ({1: 4.0, 2: 4.0}, 2),
        ({9999: 1.0, 10000: 1.0}, 10000),
        ({1: None, 2: math.nan}, None),
        ({}, None),
    ],
)
def test_the_best(manager, save, scores, best):
    for epoch, score in scores.items():
        save(epoch, score=score)
    found = manager.find_best_checkpoint()
    assert (found.epoch if found else None) == best
    if best is not None:
        assert manager.load_weights("best")[1].epoch == best


def test_the_best_by_another_metric(manager, save):
    save(1, metrics={"wins": 3.0})
    save(2, metrics={"wins": 1.0})
    assert manager.find_best_checkpoint("wins").epoch == 1
    with pytest.raises(UsageError, match="Did you mean 'wins'"):
        manager.find_best_checkpoint("winz")


def test_a_threshold_is_passed_by_the_judged_only(manager, save):
    for epoch, score in ((1, -1.0), (2, None), (3, 4.0)):
        save(epoch, score=score)
    assert [one.epoch for one in manager.find_checkpoints_by_score(-2.0)] == [3, 1]
    assert manager.find_checkpoints_by_score(5.0) == []


def test_the_list_goes_from_old_to_new(manager, save):
    assert manager.list_all_checkpoints() == []
    for epoch in (10000, 2, 9999):
        save(epoch)
    assert [one.epoch for one in manager.list_all_checkpoints()] == [2, 9999, 10000]


def test_a_score_reaches_the_sidecar_of_the_one_that_was_judged(tmp_path, manager, save):
    save(1)
    save(2)
    manager.update_metadata(1, score=3.5, metrics={"eval/std": 0.25})
    fresh = CheckpointStore(tmp_path / "checkpoints")
    assert fresh.find_best_checkpoint().epoch == 1
    weights, checkpoint = fresh.load_weights(1)
    assert checkpoint.score == 3.5
    assert checkpoint.metrics == {"losses/value_loss": 0.5, "eval/std": 0.25}
    assert float(weights["0.weight"][0, 0]) == 1.0
    assert fresh.load_weights(2)[1].score is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"scor": 1.0}, "Did you mean 'score'"),
        ({"path": None}, "'path' cannot be changed"),
        ({"files": {}}, "'files' cannot be changed"),
        ({"avg_reward": math.inf}, "avg_reward=inf"),
        ({"score": math.nan}, "score=nan"),
        ({"score": math.inf}, "score=inf"),
    ],
)
def test_metadata_that_cannot_be_is_refused_and_nothing_changes(tmp_path, manager, save, changes, named):
    save(1)
    before = (tmp_path / "checkpoints/model_0001.yaml").read_bytes()
    with pytest.raises(UsageError, match=named):
        manager.update_metadata(1, **changes)
    assert (tmp_path / "checkpoints/model_0001.yaml").read_bytes() == before


def test_metadata_of_what_is_not_there_or_damaged(tmp_path, manager, save, damage):
    save(1)
    with pytest.raises(NotFound):
        manager.update_metadata(2, score=1.0)
    damage(tmp_path / "checkpoints/model_0001.yaml")
    with pytest.raises(DamagedFile):
        manager.update_metadata(1, score=1.0)


def test_scores_written_from_many_threads_are_all_kept(manager, save):
    save(1)
    writers = [
        threading.Thread(target=manager.update_metadata, args=(1,), kwargs={"metrics": {f"m{index}": float(index)}})
        for index in range(8)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert {name for name in manager.load_weights()[1].metrics if name.startswith("m")} == {f"m{i}" for i in range(8)}


def test_nothing_there_is_not_found_and_nothing_to_resume(manager):
    with pytest.raises(NotFound, match="No checkpoint"):
        manager.load_weights()
    assert manager.load_trainer_state() is None
    assert manager.load_for_resume() is None
    with pytest.raises(NotFound):
        manager.load_trainer_state(3)


def test_resume_gets_weights_and_state_of_one_commit(manager, save):
    save(1)
    save(2)
    point = manager.load_for_resume()
    assert point.checkpoint.epoch == 2
    assert float(point.weights["0.weight"][0, 0]) == 2.0
    assert point.trainer_state == {"epoch": 2}


@pytest.mark.parametrize("name", ["model_0002.yaml", "model_0002.safetensors", "trainer_state_0002.pt"])
def test_resume_after_damage_goes_on_from_the_one_before_and_says_so(tmp_path, manager, save, damage, caplog, name):
    save(1)
    save(2)
    damage(tmp_path / "checkpoints" / name)
    with caplog.at_level(logging.WARNING):
        point = manager.load_for_resume()
    assert (point.checkpoint.epoch, point.trainer_state) == (1, {"epoch": 1})
    assert name in caplog.text


def test_resume_never_starts_from_zero_silently(tmp_path, manager, save, damage):
    save(1)
    damage(tmp_path / "checkpoints/model_0001.safetensors")
    with pytest.raises(DamagedFile, match=r"can be continued from.*model_0001\.safetensors"):
        manager.load_for_resume()


def test_weights_alone_cannot_be_resumed_from(manager, save):
    save(1, trainer_state=None)
    assert manager.load_trainer_state() is None
    with pytest.raises(DamagedFile, match="continued from"):
        manager.load_for_resume()


def test_resume_looks_further_back_than_weights_alone(manager, save):
    save(1)
    save(2, trainer_state=None)
    assert manager.load_for_resume().checkpoint.epoch == 1


def test_who_opens_without_a_selector_gets_the_newest(manager, save):
    save(1)
    save(2)
    assert manager.open().checkpoint.epoch == 2


def test_a_state_can_be_added_and_replaced(manager, save):
    save(1, trainer_state=None)
    for number in (1, 2):
        manager.add_trainer_state(1, {"number": number})
        assert manager.load_trainer_state(1) == {"number": number}
    assert manager.uncommitted_files() == []


def test_a_state_is_replaced_only_after_the_sidecar_has_let_go_of_it(tmp_path, save):
    """A crash between any two operations leaves the old state, none, or the new one; never one that fails to verify."""
    save(1, trainer_state={"number": 1})
    seen = []

    class Watched(durable.RealFileSystem):
        def rename(self, source, target):
            super().rename(source, target)
            seen.append(CheckpointStore(tmp_path / "checkpoints").load_trainer_state(1))

    CheckpointStore(tmp_path / "checkpoints", fs=Watched()).add_trainer_state(1, {"number": 2})
    assert seen == [None, None, {"number": 2}]


def test_the_newest_state_is_found_behind_checkpoints_without_one(manager, save):
    save(1, trainer_state={"number": 1})
    save(2, trainer_state=None)
    assert manager.load_trainer_state() == {"number": 1}
    assert manager.load_trainer_state(2) is None


def test_saving_the_same_weights_again_keeps_their_score_and_adds_the_state(manager, save):
    save(1, trainer_state=None)
    manager.update_metadata(1, score=8.0)
    save(1, agent_step=600)
    checkpoint = manager.load_weights(1)[1]
    assert (checkpoint.score, checkpoint.agent_step) == (8.0, 600)
    assert manager.load_trainer_state(1) == {"epoch": 1}


@pytest.mark.parametrize("state", [None, {"epoch": 1}])
def test_the_same_weights_again_without_a_state_leave_the_files_as_they_are(manager, save, state):
    save(1, trainer_state=state)
    before = {path.name: path.stat().st_ino for path in manager.directory.glob("*_0001.[sp]*")}
    save(1, trainer_state=None, agent_step=600)
    assert {path.name: path.stat().st_ino for path in manager.directory.glob("*_0001.[sp]*")} == before
    assert (manager.load_trainer_state(1), manager.load_weights(1)[1].agent_step) == (state, 600)


def test_other_weights_of_the_same_epoch_replace_it_and_its_score(manager, save, policy, describe, caplog):
    save(1, score=8.0)
    with torch.no_grad():
        policy[0].weight.fill_(-1.0)
    manager.save(policy, describe(1))
    weights, checkpoint = manager.load_weights(1)
    assert float(weights["0.weight"][0, 0]) == -1.0
    assert checkpoint.score is None
    assert "replaced" in caplog.text


def test_a_damaged_epoch_is_saved_anew(tmp_path, manager, save, damage, caplog):
    save(1)
    damage(tmp_path / "checkpoints/model_0001.yaml")
    save(1)
    assert manager.load_weights()[1].epoch == 1
    assert "saved anew" in caplog.text


def test_retention_follows_the_config(tmp_path, save):
    for epoch in range(1, 8):
        save(epoch, keep=3, score=9.0 if epoch == 2 else None)
    found = names(tmp_path / "checkpoints")
    assert [name for name in found if name.endswith(".yaml")] == [f"model_000{epoch}.yaml" for epoch in (2, 5, 6, 7)]
    assert [name for name in found if name.endswith(".pt")] == ["trainer_state_0006.pt", "trainer_state_0007.pt"]
    assert len(found) == 1 + 4 + 4 + 2
    assert [(e.epoch, e.removed) for e in read_log(tmp_path / "checkpoints")] == [
        (epoch, epoch in (1, 3, 4)) for epoch in range(1, 8)
    ]


def test_one_in_use_outlives_retention(tmp_path, manager, save):
    save(1, keep=1)
    with manager.in_use(1):
        save(2, keep=1)
        assert durable.committed_epochs(manager.directory) == [1, 2]
    save(3, keep=1)
    assert durable.committed_epochs(manager.directory) == [3]


def test_retain_by_hand(manager, save):
    for epoch in (1, 2, 3):
        save(epoch)
    dead = manager.directory / ".tmp-1-1-model_0007.yaml"
    dead.touch()
    assert manager.retain(keep=1, keep_trainer_states=1).epochs == (1, 2)
    assert [(entry.epoch, entry.removed) for entry in read_log(manager.directory)] == [(1, True), (2, True), (3, False)]
    assert not dead.exists()


def test_what_dead_writers_left_goes_with_the_next_save_that_may_remove_anything(manager, save):
    save(1)
    dead = manager.directory / ".tmp-1-1-model_0007.yaml"
    dead.touch()
    save(2)
    assert dead.exists()
    save(3, keep=5)
    assert not dead.exists()


def test_a_lost_log_is_told_again_by_the_sidecars(tmp_path, manager, save):
    save(1)
    save(2)
    (manager.directory / "checkpoint_log.json").unlink()
    save(3)
    assert [entry.epoch for entry in read_log(manager.directory)] == [1, 2, 3]


def test_a_log_that_cannot_be_written_does_not_fail_the_save(tmp_path, manager, save, caplog):
    manager.ensure_writable()
    (manager.directory / "checkpoint_log.json").mkdir()
    assert save(1).epoch == 1
    assert manager.load_weights()[1].epoch == 1
    assert "tidying up" in caplog.text


def test_a_link_as_long_as_the_weights_in_whose_place_it_stands_does_not_fail_the_next_save(manager, save, caplog):
    save(1, keep=1)
    weights = manager.directory / "model_0001.safetensors"
    size = weights.stat().st_size
    weights.unlink()
    weights.symlink_to(("./" * size)[-size:])
    assert save(2, keep=1).epoch == 2
    assert manager.load_weights()[1].epoch == 2
    assert "tidying up" in caplog.text


@pytest.mark.fault("C5")
def test_a_place_that_cannot_be_written_is_refused_at_the_start(tmp_path):
    (tmp_path / "checkpoints").write_text("a file, not a directory")
    with pytest.raises(SaveFailed, match="checkpoints"):
        CheckpointStore(tmp_path / "checkpoints").ensure_writable()


def test_asking_whether_it_is_writable_leaves_nothing(tmp_path):
    manager = CheckpointStore(tmp_path / "not" / "there" / "yet")
    manager.ensure_writable()
    manager.ensure_writable()
    assert names(manager.directory) == []


def test_the_first_save_makes_the_place_it_needs(tmp_path, policy, describe):
    manager = CheckpointStore(tmp_path / "not" / "there" / "yet")
    manager.save(policy, describe(1))
    assert manager.load_weights()[1].epoch == 1


def test_a_place_that_cannot_be_made_is_a_failed_save(tmp_path, policy, describe):
    (tmp_path / "checkpoints").write_text("a file, not a directory")
    with pytest.raises(SaveFailed, match="checkpoints cannot be made: File exists"):
        CheckpointStore(tmp_path / "checkpoints").save(policy, describe(1))


def test_a_save_that_the_disk_refuses_raises_and_keeps_the_old(tmp_path, save, policy, describe):
    class Full(durable.RealFileSystem):
        def write_temporary(self, path, data):
            path.write_bytes(data[:10])
            raise OSError(28, "No space left on device")

    save(1)
    before = names(tmp_path / "checkpoints")
    manager = CheckpointStore(tmp_path / "checkpoints", fs=Full())
    with pytest.raises(SaveFailed, match="No space left"):
        manager.save(policy, describe(2), {"epoch": 2})
    assert names(tmp_path / "checkpoints") == before
    assert manager.load_for_resume().checkpoint.epoch == 1


@pytest.mark.fault("C9")
def test_what_has_no_sidecar_is_listed_for_a_person(manager, save):
    save(1)
    (manager.directory / "model_0001.yaml").unlink()
    assert [path.name for path in manager.uncommitted_files()] == ["model_0001.safetensors", "trainer_state_0001.pt"]
