from palaestra.config.dqn import DqnConfig


def test_its_defaults_are_those_of_cleanrls_script():
    config = DqnConfig()
    assert (config.env_count, config.buffer_size, config.learning_starts) == (1, 10_000, 10_000)
    assert (config.train_interval, config.gradient_steps, config.batch_size) == (10, 1, 128)
    assert (config.target_interval, config.tau, config.gamma, config.n_step) == (500, 1.0, 0.99, 1)
    assert (config.learning_rate.start, config.learning_rate.kind, config.optimizer.epsilon) == (
        2.5e-4,
        "constant",
        1e-8,
    )
    assert (config.loss, config.max_grad_norm, config.double, config.dueling) == ("mse", None, False, False)
    assert (config.exploration.start, config.exploration.end, config.exploration.fraction) == (1.0, 0.05, 0.5)
    assert not config.prioritized.enabled
