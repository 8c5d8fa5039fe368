import pytest
from pydantic import ValidationError

from palaestra.config.off_policy import OffPolicyConfig
from palaestra.config.resolve import resolve_training
from palaestra.core.errors import UsageError

IMPOSSIBLE = [
    ({"steps_per_iteration": 1000, "env_count": 3}, "steps_per_iteration=1000 is not a multiple of env_count=3; try"),
    ({"buffer_size": 100}, "buffer_size=100 is less than one batch_size=256; try buffer_size=256 or more"),
    (
        {"buffer_size": 300, "env_count": 100, "steps_per_iteration": 100, "n_step": 3},
        "n_step=3 is above the 2 steps that buffer_size=300 holds of each of 100 environments; try buffer_size=400",
    ),
]


@pytest.mark.parametrize(("settings", "message"), IMPOSSIBLE)
def test_what_cannot_fit_is_refused_with_what_would(settings, message):
    with pytest.raises(ValidationError, match=message):
        OffPolicyConfig(**settings)


def test_the_window_that_is_advised_fits():
    OffPolicyConfig(buffer_size=400, env_count=100, steps_per_iteration=100, n_step=3)


@pytest.mark.parametrize("algorithm", ["dqn", "sac", "td3"])
@pytest.mark.parametrize("learning_starts", [5000, 7000])
def test_a_training_that_would_end_before_it_learns_is_refused(algorithm, learning_starts):
    words = {"algorithm": algorithm, "total_steps": 5000, algorithm: {"learning_starts": learning_starts}}
    with pytest.raises(
        UsageError, match=rf"{algorithm}.learning_starts={learning_starts} is not below total_steps=5000"
    ):
        resolve_training("", words)
    resolve_training("", {**words, "algorithm": "ppo"})
    resolve_training("", {**words, algorithm: {"learning_starts": 500}})
