import pytest
from pydantic import ValidationError

from palaestra.config.overrides import parse_overrides
from palaestra.config.ppo_options import KickstartConfig, PrioritizedConfig, VtraceConfig
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig


def test_everything_is_off_by_default():
    ppo = TrainConfig().ppo
    assert not ppo.vtrace.enabled
    assert not ppo.prioritized.enabled
    assert ppo.kickstart.teacher is None
    assert not ppo.gradient_statistics


def test_schedules_inside_options_take_the_short_form():
    words = ["ppo.kickstart.action_coefficient=0.5", "ppo.prioritized.beta.end=0.8", "ppo.kickstart.teacher=first:best"]
    ppo = resolve_config(TrainConfig, None, parse_overrides(words)).ppo
    assert (ppo.kickstart.action_coefficient.start, ppo.kickstart.action_coefficient.kind) == (0.5, "constant")
    assert (ppo.prioritized.beta.start, ppo.prioritized.beta.end, ppo.prioritized.beta.kind) == (0.4, 0.8, "linear")
    assert ppo.kickstart.teacher == "first:best"


@pytest.mark.parametrize(
    ("model", "setting"),
    [(VtraceConfig, {"rho_clip": 0}), (VtraceConfig, {"c_clip": -1}), (PrioritizedConfig, {"alpha": -0.1})],
)
def test_what_makes_no_sense_is_refused(model, setting):
    with pytest.raises(ValidationError):
        model(**setting)


def test_the_teachers_part_ends_with_the_training_unless_said_otherwise():
    assert KickstartConfig().action_coefficient.end == KickstartConfig().value_coefficient.end == 0.0
