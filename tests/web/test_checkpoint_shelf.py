from __future__ import annotations

from dataclasses import replace

import pytest

from palaestra.checkpoints.durable import commit, rewrite_sidecar
from palaestra.checkpoints.names import model_name, sidecar_name, trainer_state_name
from palaestra.checkpoints.reading import survey
from palaestra.web import checkpoint_shelf
from palaestra.web.checkpoint_shelf import SidecarShelf


@pytest.fixture
def directory(make_run, save_checkpoint):
    directory = make_run("first")
    for epoch in (10, 20, 30):
        save_checkpoint(directory, epoch)
    return directory.checkpoints


def test_it_finds_what_a_survey_finds(directory):
    (directory / model_name(20)).write_bytes(b"short")
    (directory / sidecar_name(30)).write_text("damaged")
    shelf = SidecarShelf()
    for _ in range(2):
        assert shelf.survey(directory) == survey(directory)


def test_what_did_not_change_is_not_read_again(directory, monkeypatch):
    shelf = SidecarShelf()
    before = shelf.survey(directory)
    monkeypatch.setattr(checkpoint_shelf, "read_sidecar", lambda *_: pytest.fail("it was read again"))
    assert shelf.survey(directory) == before


def test_a_new_score_and_a_removed_checkpoint_are_seen(directory):
    shelf = SidecarShelf()
    checkpoint = shelf.survey(directory).checkpoints[0]
    rewrite_sidecar(directory, replace(checkpoint, score=99.0))
    assert [one.score for one in shelf.survey(directory).checkpoints] == [99.0, 1.5, 1.5]
    (directory / sidecar_name(10)).unlink()
    assert [one.epoch for one in shelf.survey(directory).checkpoints] == [20, 30]


def test_a_state_that_is_dropped_while_we_look_is_no_damage(directory, monkeypatch):
    """Retention rewrites the sidecar and takes the state away between our reading the one and looking for the other."""
    look, state = checkpoint_shelf.check_sizes, directory / trainer_state_name(20)
    before = SidecarShelf().survey(directory).checkpoints[1]
    commit(directory, 20, {model_name(20): b"weights", state.name: b"state"}, before)

    def drop_then_look(folder, checkpoint):
        if checkpoint.epoch == 20 and state.exists():
            rewrite_sidecar(folder, replace(checkpoint, files={model_name(20): checkpoint.files[model_name(20)]}))
            state.unlink()
        look(folder, checkpoint)

    monkeypatch.setattr(checkpoint_shelf, "check_sizes", drop_then_look)
    found = SidecarShelf().survey(directory)
    assert not state.exists()
    assert [list(one.files) for one in found.checkpoints] == [[model_name(epoch)] for epoch in (10, 20, 30)]
    assert found.refused == ()


def test_weights_that_go_missing_are_seen_though_the_sidecar_is_known(directory):
    shelf = SidecarShelf()
    shelf.survey(directory)
    (directory / model_name(10)).unlink()
    assert [one.path.name for one in shelf.survey(directory).refused] == [sidecar_name(10)]


def test_it_keeps_no_more_than_it_may(directory):
    shelf = SidecarShelf(most=2)
    assert len(shelf.survey(directory).checkpoints) == 3
    assert len(shelf._kept) == 2
