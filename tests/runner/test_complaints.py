from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig
from palaestra.core.errors import MissingExtra, UsageError
from palaestra.core.worker_kind import FieldError
from palaestra.runner.complaints import complaints_of


def test_each_mistake_stands_under_its_own_key():
    try:
        resolve_config(TrainConfig, None, {"total_steps": 0, "ppo": {"gama": 1, "env_count": "x"}})
    except UsageError as error:
        found = complaints_of(error, TrainConfig)
    assert [one.key for one in found] == ["total_steps", "ppo.env_count", "ppo.gama"]
    assert found[2].hint == "Did you mean 'ppo.gamma'?"


def test_an_error_that_is_no_validation_keeps_its_words():
    assert complaints_of(UsageError("No.", "Yes."), TrainConfig, "recipe") == [FieldError("recipe", "No.", "Yes.")]


def test_a_missing_extra_keeps_its_exit_code():
    assert complaints_of(MissingExtra("'ALE/Pong-v5'", "atari"), TrainConfig, "env.id")[0].exit_code == 4
