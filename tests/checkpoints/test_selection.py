from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path

import pytest

from palaestra.checkpoints import durable, selection
from palaestra.checkpoints.selection import (
    at_least,
    check_metric,
    comparable_episodes,
    epoch_of_path,
    mean_over,
    open_best,
    open_checkpoint,
    open_latest,
    parse_selector,
    rank_from_best,
    survey,
    value_of,
)
from palaestra.core.errors import DamagedFile, NotFound, UsageError

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("latest", "latest"),
        ("best", "best"),
        ("10", 10),
        ("0", 0),
        ("0010", 10),
        (0, 0),
        (10000, 10000),
        ("a/model_0010.yaml", Path("a/model_0010.yaml")),
        (Path("model_0010.safetensors"), Path("model_0010.safetensors")),
    ],
)
def test_selectors(given, meant):
    assert parse_selector(given) == meant


@pytest.mark.parametrize("given", ["", "-1", -1, "lates", "1e3", "\u0663", True, 10**18, "9" * 5000, "model_0010"])
def test_what_selects_nothing_is_refused(given):
    with pytest.raises(UsageError):
        parse_selector(given)


def test_a_slip_of_the_pen_is_corrected():
    with pytest.raises(UsageError, match="Did you mean 'latest'"):
        parse_selector("lastest")


def test_the_epoch_of_a_path():
    assert epoch_of_path(Path("x/model_10000.yaml")) == 10000
    assert epoch_of_path(Path("x/model_0000.safetensors")) == 0
    with pytest.raises(UsageError, match="palaestra convert"):
        epoch_of_path(Path("agent.safetensors"))


@pytest.mark.parametrize(
    ("scores", "best_epochs"),
    [
        ([], []),
        ([None, None], []),
        ([None, 0.0], [1]),
        ([-5.0, None, -7.0], [0, 2]),
        ([1.0, NAN, 2.0], [2, 0]),
        ([INF, 1.0, -INF], [1]),
        ([3.0, 3.0, 3.0], [2, 1, 0]),
        ([0.0, -0.0], [1, 0]),
        ([5.0, 4.0, None, 6.0], [3, 0, 1]),
    ],
)
def test_the_best_come_first_and_the_unjudged_never(describe, scores, best_epochs):
    checkpoints = [describe(epoch, score=score) for epoch, score in enumerate(scores)]
    assert [one.epoch for one in rank_from_best(checkpoints)] == best_epochs
    assert [one.epoch for one in rank_from_best(reversed(checkpoints))] == best_epochs


def scored(describe, epoch, score, episodes, **means):
    """`m10=3.0`: a mean over 10 episodes beside the score."""
    kept = {mean_over(int(name[1:])): value for name, value in means.items()}
    return describe(epoch, score=score, metrics={"score_episodes": float(episodes), **kept})


def test_scores_are_compared_over_the_same_number_of_episodes_only(describe):
    """One lucky episode does not make a checkpoint the best of those that were evaluated over ten."""
    run = [scored(describe, 20, 358.0, 10), scored(describe, 40, 500.0, 1), scored(describe, 60, 469.0, 10)]
    assert comparable_episodes(run) == 10
    assert [one.epoch for one in rank_from_best(run)] == [60, 20, 40]


def test_an_evaluation_over_more_episodes_leaves_a_checkpoint_comparable(describe):
    """The best was looked at more closely and came out lower; over ten episodes it still is the best."""
    run = [
        scored(describe, 20, 358.0, 10),
        scored(describe, 40, 469.0, 10),
        scored(describe, 60, 420.0, 100, m10=480.0),
        scored(describe, 80, 410.0, 50, m10=NAN),
    ]
    assert [one.epoch for one in rank_from_best(run)] == [60, 40, 20, 80]


def test_of_numbers_that_equally_many_share_the_larger_counts(describe):
    run = [scored(describe, 1, 9.0, 10), scored(describe, 2, 5.0, 50)]
    assert comparable_episodes(run) == 50
    assert rank_from_best(run)[0].epoch == 2
    assert comparable_episodes([]) == 0


def test_a_threshold_looks_at_the_score_whatever_it_stands_on(describe):
    run = [scored(describe, 1, 9.0, 10), scored(describe, 2, 5.0, 50), scored(describe, 3, 8.0, 50)]
    assert [one.epoch for one in at_least(run, 6.0)] == [1, 3]


def test_of_equals_the_one_trained_longer_wins_even_with_a_lower_epoch(describe):
    checkpoints = [describe(1, score=1.0, agent_step=900), describe(2, score=1.0, agent_step=100)]
    assert rank_from_best(checkpoints)[0].epoch == 1


@pytest.mark.parametrize(
    ("min_score", "epochs"), [(0.0, [2]), (-10.0, [2, 0]), (5.0, [2]), (5.1, []), (-INF, [2, 0]), (INF, [])]
)
def test_a_missing_score_passes_no_threshold(describe, min_score, epochs):
    checkpoints = [describe(0, score=-3.0), describe(1, score=None), describe(2, score=5.0), describe(3, score=NAN)]
    assert [one.epoch for one in at_least(checkpoints, min_score)] == epochs


def test_nan_is_no_threshold(describe):
    with pytest.raises(UsageError):
        at_least([describe(1, score=1.0)], NAN)


def test_other_metrics_can_rank(describe):
    first, second = (
        describe(1, metrics={"wins": 3.0}, avg_reward=1.0),
        describe(2, metrics={"wins": NAN}, avg_reward=2.0),
    )
    assert [one.epoch for one in rank_from_best([first, second], "wins")] == [1]
    assert [one.epoch for one in rank_from_best([first, second], "avg_reward")] == [2, 1]
    assert value_of(second, "wins") is None


def test_a_metric_that_nobody_knows_is_refused(describe):
    with pytest.raises(UsageError, match="Did you mean 'score'"):
        check_metric("scor", [describe(1)])
    check_metric("score", [])


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
    read = durable.check_sizes

    def drop_then_look(folder, checkpoint):
        if checkpoint.epoch == 2 and (folder / "trainer_state_0002.pt").exists():
            only_weights = {"model_0002.safetensors": checkpoint.files["model_0002.safetensors"]}
            durable.rewrite_sidecar(folder, replace(checkpoint, files=only_weights))
            (folder / "trainer_state_0002.pt").unlink()
        read(folder, checkpoint)

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
    epochs = selection.committed_epochs(directory)
    monkeypatch.setattr(selection, "committed_epochs", lambda _: [0, *epochs, 99])
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
