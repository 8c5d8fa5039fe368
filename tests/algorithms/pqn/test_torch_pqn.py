"""PQN in torch: an iteration against one written out, minibatches, resuming."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

import palaestra.testing.envs  # noqa: F401  registers the tiny environments
from palaestra.algorithms.base import Progress
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

SMALL = {"env_count": 3, "horizon": 40, "minibatch_size": 30, "update_epochs": 2, "gamma": 0.9}


def config_of(seed=1, total_steps=1200, env="CartPole-v1", policy=None, **pqn) -> TrainConfig:
    return TrainConfig(
        algorithm="pqn",
        engine="torch",
        seed=seed,
        total_steps=total_steps,
        env=env,
        policy=policy or {"graph": "mlp", "settings": {"hidden": [16, 16]}},
        pqn={**SMALL, **pqn},
    )


def run_on(state, iterations: int):
    for _, report in zip(range(iterations), train(state), strict=False):
        last = report
    return last


def weights(state) -> list[float]:
    return torch.cat([value.double().flatten() for value in state.algorithm.policy().state_dict().values()]).tolist()


class WatchedEnvs:
    """Writes down all that a rollout sees and does."""

    def __init__(self, algorithm) -> None:
        self.log: list[tuple[np.ndarray, list[float], list]] = []
        envs = algorithm.stepped_envs()
        algorithm.stepped_envs = lambda: self
        self.step_inside = envs.step

    def step(self, actions, out):
        result = self.step_inside(actions, out)
        self.log.append((actions.copy(), np.array(result.rewards), list(result.endings)))
        return result


@pytest.mark.parametrize("q_lambda", [0.0, 0.65, 1.0])
@pytest.mark.parametrize("env", ["CartPole-v1", {"id": "CartPole-v1", "max_episode_steps": 9}])
def test_an_iteration_equals_plain_torch_written_out(env, q_lambda):
    config = config_of(env=env, q_lambda=q_lambda, learning_rate=0.01, exploration={"start": 0.5, "end": 0.5})
    state = new_training_state(config)
    algorithm = state.algorithm
    network = deepcopy(algorithm.policy().network)
    radam = torch.optim.RAdam(network.parameters(), lr=0.01)
    watched = WatchedEnvs(algorithm)
    first = algorithm.buffer.blocks[""][0].copy()
    run_on(state, 1)
    observations = np.concatenate([first[None], algorithm.buffer.blocks[""][1:]])  # [T + 1, B, …]
    actions = np.stack([entry[0] for entry in watched.log])

    def q(batch):
        return network(torch.from_numpy(np.asarray(batch))[None], {}).distribution.values[0]

    with torch.no_grad():
        returns = np.zeros((40, 3), np.float32)
        for step in reversed(range(40)):
            _, rewards, endings = watched.log[step]
            ended = {ending.env_index: ending for ending in endings}
            for at in range(3):
                if at in ended and ended[at].episode.terminated:
                    future = 0.0
                elif at in ended:
                    future = float(q(ended[at].final_observation[None]).max())
                else:
                    future = float(q(observations[step + 1, at][None]).max())
                    if step < 39:
                        future = (1 - q_lambda) * future + q_lambda * returns[step + 1, at]
                returns[step, at] = rewards[at] + 0.9 * future
    fates = {ending.episode.terminated for entry in watched.log for ending in entry[2]}
    assert fates == {True} if env == "CartPole-v1" else False in fates
    for epoch in range(2):
        for indices in algorithm.minibatches(0, epoch):
            flat = observations[:40].reshape(120, *observations.shape[2:])
            taken = q(flat[indices])[torch.arange(30), torch.from_numpy(actions.ravel()[indices])]
            loss = nn.functional.mse_loss(taken, torch.from_numpy(returns.ravel()[indices]))
            radam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 10.0)
            radam.step()
    for ours, theirs in zip(algorithm.policy().network.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_every_sample_is_in_one_minibatch_of_each_epoch_and_epochs_differ():
    algorithm = new_training_state(config_of()).algorithm
    orders = [np.concatenate(algorithm.minibatches(iteration, epoch)) for iteration in (0, 1) for epoch in (0, 1)]
    for order in orders:
        assert sorted(order.tolist()) == list(range(120))
    assert len({tuple(order) for order in orders}) == 4
    assert all(len(part) == 30 for part in algorithm.minibatches(0, 0))


def test_layers_are_normalised_before_their_activation():
    """Then a factor of a layer's numbers and a shift of all of them change nothing; a relu would see the shift."""
    network = new_training_state(config_of()).algorithm.policy().network
    observations = torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(1))
    before = network(observations, {}).distribution.values
    with torch.no_grad():
        layers = [module for module in network.modules() if isinstance(module, nn.Linear)][:2]
        assert [layer.out_features for layer in layers] == [16, 16]
        for layer in layers:
            layer.weight.mul_(3)
            layer.bias.mul_(3).sub_(50)
    after = network(observations, {}).distribution.values
    torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-3)


def test_reports_carry_the_names_of_cleanrls_tags():
    report = run_on(new_training_state(config_of()), 1)
    assert set(report.update.metrics()) == {
        "losses/td_loss",
        "losses/q_values",
        "losses/grad_norm",
        "charts/learning_rate",
    }
    assert report.metrics == {"charts/epsilon": pytest.approx(1 - 0.95 * (120 / 1200) / 0.5)}


def test_epsilon_falls_within_an_iteration():
    exploration = {"start": 1.0, "end": 0.0, "fraction": 0.5}
    config = config_of(env_count=30, minibatch_size=60, exploration=exploration)
    algorithm = new_training_state(config).algorithm
    start = Progress(0, 0, 30 * 40 * 2)
    actions = [algorithm.explore(start, step, lambda: np.full(30, -1)) for step in range(40)]
    greedy = np.array([(action == -1).mean() for action in actions])
    assert greedy[0] == 0.0
    np.testing.assert_allclose(greedy.reshape(5, 8).mean(axis=1), np.arange(3.5, 40, 8) / 40, atol=0.1)


@pytest.mark.parametrize("policy", [None, {"graph": "mlp", "normalize_observations": True}])
def test_a_restored_state_goes_on_bit_for_bit(policy):
    config = config_of(policy=policy)
    state = new_training_state(config)
    run_on(state, 3)
    model, saved = deepcopy(state.algorithm.policy().state_dict()), state.capture()
    other = new_training_state(config)
    other.algorithm.policy().load_state_dict(model)
    other.restore(saved)
    expected, report = run_on(state, 3), run_on(other, 3)
    assert report.update == expected.update
    assert report.episodes == expected.episodes
    assert weights(other) == weights(state)


@pytest.mark.parametrize("part", ["optimizer", "rollout_buffer", "envs"])
def test_leaving_out_any_one_part_is_seen(part):
    state, other = new_training_state(config_of()), new_training_state(config_of())
    run_on(state, 3)
    model, saved = deepcopy(state.algorithm.policy().state_dict()), state.capture()
    other.algorithm.policy().load_state_dict(model)
    other.restore({**saved, part: other.capture()[part]})
    run_on(state, 3)
    run_on(other, 3)
    assert weights(other) != weights(state)


def train_and_resume(group):
    config = config_of(policy={"graph": "mlp", "normalize_observations": True})
    state, other = new_training_state(config, group), new_training_state(config, group)
    run_on(state, 2)
    other.algorithm.policy().load_state_dict(deepcopy(state.algorithm.policy().state_dict()))
    other.restore(state.capture())
    run_on(state, 2)
    run_on(other, 2)
    return [weights(state), weights(other), state.algorithm.buffer.rows[0].tolist()]


@pytest.mark.slow
def test_two_ranks_learn_one_network_from_steps_of_their_own_and_resume_exactly(together):
    (first, first_resumed, first_seen), (second, second_resumed, second_seen) = together(train_and_resume)
    assert first == first_resumed == second == second_resumed
    assert first_seen != second_seen


def test_continuous_actions_are_refused_with_the_algorithms_that_fit():
    with pytest.raises(UsageError, match="algorithm=pqn cannot act") as refused:
        new_training_state(config_of(env="Pendulum-v1"))
    assert "ppo, sac, td3" in refused.value.hint
