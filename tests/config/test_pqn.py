import pytest
from pydantic import ValidationError

from palaestra.config.pqn import REPLAY_KEYS, PqnConfig
from palaestra.config.resolve import resolve_training
from palaestra.core.errors import UsageError


def test_its_defaults_are_those_of_cleanrls_script():
    config = PqnConfig()
    assert (config.env_count, config.horizon, config.minibatch_size, config.update_epochs) == (4, 128, 4 * 128 // 4, 4)
    assert (config.learning_rate.start, config.learning_rate.end, config.learning_rate.kind) == (2.5e-4, 0, "linear")
    assert (config.gamma, config.q_lambda, config.max_grad_norm, config.optimizer.kind) == (0.99, 0.65, 10.0, "radam")
    assert (config.exploration.start, config.exploration.end, config.exploration.fraction) == (1.0, 0.05, 0.5)


@pytest.mark.parametrize("key", REPLAY_KEYS)
def test_settings_of_a_replay_buffer_are_refused_with_the_algorithm_that_has_them(key):
    with pytest.raises(UsageError, match=rf"pqn: there is no {key}, because PQN .* algorithm=dqn.* dqn\.{key}"):
        resolve_training("", {"algorithm": "pqn", "pqn": {key: 3}})


def test_minibatches_must_fit():
    with pytest.raises(ValidationError, match="minibatch_size=100 does not divide env_count x horizon = 4 x 128 = 512"):
        PqnConfig(minibatch_size=100)
