from __future__ import annotations

import pytest
from pydantic import ValidationError

from palaestra.config.env import CurriculumConfig, EnvConfig
from palaestra.config.overrides import parse_overrides
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError


def test_a_bare_name_is_an_id():
    assert EnvConfig.model_validate("Pendulum-v1") == EnvConfig(id="Pendulum-v1")


def test_another_environment_takes_nothing_over():
    standing = {"id": "A-v0", "kwargs": {"x": 1}, "max_episode_steps": 5}
    settled = EnvConfig.normalize_override("B-v0", standing)
    assert standing | settled == {"id": "B-v0"}


@pytest.mark.parametrize("value", [{"id": ""}, {"max_episode_steps": 0}, {"id": 5}])
def test_what_cannot_be_an_environment_is_refused(value):
    with pytest.raises(ValidationError):
        EnvConfig.model_validate(value)


def test_two_of_them_do_not_share_their_kwargs():
    first, second = EnvConfig(), EnvConfig()
    first.kwargs["x"] = 1
    assert second.kwargs == {}


def test_it_reads_as_its_id():
    assert str(EnvConfig(id="A-v0")) == "A-v0"


def resolved(*words: str) -> TrainConfig:
    return resolve_config(TrainConfig, None, parse_overrides(words))


def test_tasks_can_be_given_word_by_word_or_as_one_mapping():
    by_words = resolved("curriculum.tasks.easy.weight=2", "curriculum.tasks.hard.kwargs.length=1e1")
    at_once = resolved("curriculum.tasks={easy: {weight: 2}, hard: {kwargs: {length: 10.0}}}")
    assert by_words == at_once
    assert by_words.curriculum.tasks["easy"].weight == 2.0


def test_an_unknown_key_inside_a_task_is_refused_with_its_path():
    with pytest.raises(UsageError, match=r"curriculum\.tasks\.easy\.wieght"):
        resolved("curriculum.tasks.easy.wieght=2")


@pytest.mark.parametrize("name", ["", "two words", "a/b", "x" * 41, "émigré"])
def test_a_name_that_no_metric_could_carry_is_refused(name):
    with pytest.raises(ValidationError, match="no name of a task"):
        CurriculumConfig(tasks={name: {}})


def test_the_slow_mean_must_be_the_slower_one():
    with pytest.raises(ValidationError, match=r"slow_rate=0\.5 must be below fast_rate=0\.1"):
        CurriculumConfig(slow_rate=0.5)


@pytest.mark.parametrize("weight", [0, -1])
def test_a_weight_is_above_zero(weight):
    with pytest.raises(ValidationError):
        CurriculumConfig(tasks={"easy": {"weight": weight}})


def test_by_default_there_is_none():
    assert TrainConfig().curriculum.tasks == {}
