import logging
from dataclasses import replace

import pytest

from palaestra.checkpoints import durable, reading
from palaestra.checkpoints.reading import open_best, open_checkpoint, open_latest, survey
from palaestra.core.errors import DamagedFile, NotFound


@pytest.fixture
def directory(tmp_path, save):
    for epoch, score in ((1, 5.0), (2, 9.0), (3, 1.0)):
        save(epoch, score=score)
    return tmp_path / "checkpoints"


def test_the_survey_goes_from_old_to_new(directory):
    assert [one.epoch for one in survey(directory).checkpoints] == [1, 2, 3]
    assert survey(directory).refused == ()


def test_a_state_that_is_dropped_during_a_survey_is_no_damage(directory, monkeypatch):
    """Retention rewrites the sidecar and takes the state away between our reading the one and looking for the other."""
    look = durable.check_sizes

    def drop_then_look(folder, checkpoint):
        if checkpoint.epoch == 2 and (folder / "trainer_state_0002.pt").exists():
            only_weights = {"model_0002.safetensors": checkpoint.files["model_0002.safetensors"]}
            durable.rewrite_sidecar(folder, replace(checkpoint, files=only_weights))
            (folder / "trainer_state_0002.pt").unlink()
        look(folder, checkpoint)

    monkeypatch.setattr(durable, "check_sizes", drop_then_look)
    found = survey(directory)
    assert [list(one.files) for one in found.checkpoints][1] == ["model_0002.safetensors"]
    assert (len(found.checkpoints), found.refused) == (3, ())


@pytest.mark.parametrize(("selector", "epoch"), [("latest", 3), ("best", 2), (1, 1), ("2", 2)])
def test_a_selector_opens_its_checkpoint(directory, selector, epoch):
    opened = open_checkpoint(directory, selector)
    assert opened.checkpoint.epoch == epoch
    assert opened.refused == ()
    assert set(opened.parts) == {f"model_000{epoch}.safetensors", f"trainer_state_000{epoch}.pt"}


@pytest.mark.parametrize("name", ["model_0002.yaml", "model_0002.safetensors"])
def test_a_path_opens_its_checkpoint(directory, name):
    assert open_checkpoint(directory, directory / name).checkpoint.epoch == 2
    assert open_checkpoint(directory / "elsewhere", str(directory / name)).checkpoint.epoch == 2


@pytest.mark.fault("C6")
@pytest.mark.parametrize("name", ["model_0003.yaml", "model_0003.safetensors", "trainer_state_0003.pt"])
def test_a_damaged_newest_is_named_and_the_one_before_is_used(directory, damage, caplog, name):
    damage(directory / name)
    with caplog.at_level(logging.WARNING):
        opened = open_latest(directory)
    assert opened.checkpoint.epoch == 2
    assert [one.path.name for one in opened.refused] == ["model_0003.yaml"]
    assert name in opened.refused[0].reason
    assert name in caplog.text


def test_a_damaged_best_is_named_and_the_next_best_is_used(directory, damage):
    damage(directory / "model_0002.safetensors")
    opened = open_best(directory)
    assert opened.checkpoint.epoch == 1
    assert "model_0002.safetensors" in opened.refused[0].reason


def test_a_damaged_one_that_was_asked_for_is_an_error(directory, damage):
    damage(directory / "model_0003.safetensors")
    with pytest.raises(DamagedFile, match=r"model_0003\.safetensors"):
        open_checkpoint(directory, 3)


def test_none_only_when_there_is_none(tmp_path, directory, damage):
    assert open_latest(tmp_path / "nowhere") is None
    assert open_best(tmp_path / "nowhere") is None
    for epoch in (1, 2, 3):
        damage(directory / f"model_000{epoch}.yaml")
    for opener in (open_latest, open_best):
        with pytest.raises(DamagedFile, match=r"No checkpoint in .* can be used.*model_000"):
            opener(directory)


def test_an_epoch_that_is_not_there_is_answered_with_those_that_are(directory):
    with pytest.raises(NotFound, match="Epochs there: 1, 2, 3"):
        open_checkpoint(directory, 4)


def test_where_there_are_none_that_is_the_answer(tmp_path):
    with pytest.raises(NotFound, match="Epochs there: none"):
        open_checkpoint(tmp_path, 4)


def test_who_selects_nothing_gets_the_newest(directory):
    assert open_checkpoint(directory).checkpoint.epoch == 3


def test_best_without_a_judgement_says_how_to_get_one(tmp_path, save):
    save(1)
    with pytest.raises(NotFound, match="palaestra eval"):
        open_checkpoint(tmp_path / "checkpoints", "best")


def test_one_removed_between_listing_and_reading_is_no_damage(directory, monkeypatch):
    epochs = reading.committed_epochs(directory)
    monkeypatch.setattr(reading, "committed_epochs", lambda _: [0, *epochs, 99])
    assert open_latest(directory).checkpoint.epoch == 3
    assert open_latest(directory).refused == ()
    assert survey(directory).refused == ()
    assert [one.epoch for one in survey(directory).checkpoints] == [1, 2, 3]


@pytest.mark.fault("C10")
def test_missing_weights_are_refused_in_the_survey(directory):
    (directory / "model_0001.safetensors").unlink()
    found = survey(directory)
    assert [one.epoch for one in found.checkpoints] == [2, 3]
    assert "missing" in found.refused[0].reason
