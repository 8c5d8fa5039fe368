from __future__ import annotations

import pytest
from pydantic import ValidationError

from palaestra.config.train import CheckpointConfig, LiveConfig, TrainConfig
from palaestra.config.yaml import dump_yaml, parse_yaml
from palaestra.rendering.frame_format import MAX_SIDE, MAX_SLOTS


def test_what_a_run_writes_down_is_read_back_the_same():
    config = TrainConfig.model_validate(
        {"total_steps": 1e6, "env": {"kwargs": {"map": [1, {"a": None}]}}, "loggers": {"wandb": {"tags": ["x"]}}}
    )
    assert TrainConfig.model_validate(parse_yaml(dump_yaml(config.model_dump(mode="json")))) == config


def test_the_written_form_keeps_the_order_of_the_fields():
    text = dump_yaml(TrainConfig().model_dump(mode="json"))
    tops = [line.partition(":")[0] for line in text.splitlines() if not line.startswith(" ")]
    assert tops == list(TrainConfig.model_fields)


@pytest.mark.parametrize("bad", [{"keep": 0}, {"keep_trainer_states": 0}, {"save_interval": -1}])
def test_at_least_one_checkpoint_always_stays(bad):
    with pytest.raises(ValidationError):
        CheckpointConfig.model_validate(bad)


def test_an_interval_that_nobody_asked_for_is_none():
    assert CheckpointConfig().save_interval is None


def test_an_interval_of_zero_means_only_at_the_end():
    assert CheckpointConfig(save_interval=0).save_interval == 0


@pytest.mark.parametrize("bad", [{"budget": 0.0}, {"budget": 1.5}, {"tiles": 0}, {"largest_side": 0}, {"fps": 5}])
def test_what_cannot_be_is_refused(bad):
    with pytest.raises(ValidationError):
        LiveConfig.model_validate(bad)


def test_the_usual_budget_keeps_the_promise_of_two_percent():
    assert LiveConfig().enabled
    assert LiveConfig().budget < 0.02


def test_the_largest_that_can_be_asked_for_fits_into_a_lane():
    LiveConfig(tiles=MAX_SLOTS)
    with pytest.raises(ValidationError):
        LiveConfig(tiles=MAX_SLOTS + 1)
    with pytest.raises(ValidationError):
        LiveConfig(largest_side=MAX_SIDE + 1)
