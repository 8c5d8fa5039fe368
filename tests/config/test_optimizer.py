import pytest
from pydantic import ValidationError

from palaestra.config.optimizer import OptimizerConfig, RegularizeConfig
from palaestra.config.overrides import parse_overrides
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError


def test_a_bare_name_is_the_kind_and_the_other_settings_stay():
    base = TrainConfig(ppo={"optimizer": {"weight_decay": 0.2}})
    config = resolve_config(TrainConfig, base, parse_overrides(["ppo.optimizer=muon"]))
    assert config.ppo.optimizer == OptimizerConfig(kind="muon", weight_decay=0.2)
    assert str(config.ppo.optimizer) == "muon"


def test_an_unknown_kind_is_refused_with_those_that_exist():
    with pytest.raises(UsageError, match="adam"):
        resolve_config(TrainConfig, None, parse_overrides(["ppo.optimizer=sgd"]))


def test_weight_decay_is_a_number_with_a_fraction_even_when_written_without():
    decay = resolve_config(
        TrainConfig, None, parse_overrides(["ppo.optimizer.weight_decay=1"])
    ).ppo.optimizer.weight_decay
    assert (decay, type(decay)) == (1.0, float)


def test_by_default_nothing_holds_weights_back():
    assert RegularizeConfig() == RegularizeConfig(clip_range=None, l2=0.0, l2_init=0.0)


@pytest.mark.parametrize("setting", [{"clip_range": 0.0}, {"l2": -1.0}, {"l2_init": -0.1}])
def test_what_makes_no_sense_is_refused(setting):
    with pytest.raises(ValidationError):
        RegularizeConfig(**setting)
