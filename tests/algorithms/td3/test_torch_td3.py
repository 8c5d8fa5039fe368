"""TD3's updates against another implementation, with torch.optim.Adam."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from palaestra.algorithms.base import Progress
from palaestra.algorithms.counter_rng import CounterRng
from palaestra.core.errors import NonFinite, UsageError
from palaestra.core.seeds import draw_seed
from palaestra.training.state import new_training_state
from tests.algorithms.actors import (
    assert_equal_weights,
    config_of,
    copied,
    draw_batch,
    go_on,
    numbers_of,
    resumed,
    trained,
)

BEGINNING = Progress(0, 0, 1000)
DDPG = {"twin_critics": False, "policy_interval": 1, "target_noise": 0.0}


class PlainTd3:
    """One update after another as the paper writes them; actions are torques from -2 to 2."""

    def __init__(self, algorithm):
        tensors = algorithm.tensors
        self.settings = algorithm.td3
        self.actor = copied(algorithm.agent.network, "actor", "action")
        self.critics = [copied(critic, "critic", "value") for critic in tensors.critics.networks]
        self.target_actor, self.targets = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        weights = [weight for critic in self.critics for weight in critic.parameters()]
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=3e-3)
        self.critic_optimizer = torch.optim.Adam(weights, lr=3e-3)

    def values(self, critics, observations, torques):
        return [critic(torch.cat([observations, torques / 2], -1)).squeeze(-1) for critic in critics]

    def torques(self, actor, observations):
        return 2 * torch.tanh(actor(observations))

    def update(self, batch, noise, *, with_actor):
        with torch.no_grad():
            largest = 2 * self.settings.target_noise_clip
            smoothing = (2 * self.settings.target_noise * noise).clamp(-largest, largest)
            torques = (self.torques(self.target_actor, batch.next_observations) + smoothing).clamp(-2, 2)
            following = torch.stack(self.values(self.targets, batch.next_observations, torques)).amin(0)
            target = batch.rewards + batch.discounts * following
        values = self.values(self.critics, batch.observations, 2 * batch.actions)
        self.step(self.critic_optimizer, sum(nn.functional.mse_loss(each, target) for each in values))
        if not with_actor:
            return
        torques = self.torques(self.actor, batch.observations)
        self.step(self.actor_optimizer, -self.values(self.critics, batch.observations, torques)[0].mean())
        with torch.no_grad():
            pairs = [(self.target_actor, self.actor), *zip(self.targets, self.critics, strict=True)]
            for target_net, trained in pairs:
                for one, other in zip(target_net.parameters(), trained.parameters(), strict=True):
                    one.copy_(0.005 * other + 0.995 * one)

    def step(self, optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("settings", [{}, {"policy_interval": 3, "target_noise": 0.6}, DDPG])
def test_ten_updates_are_those_of_another_implementation(make, settings):
    td3 = make("td3", settings={"learning_rate": 3e-3, **settings})
    plain, interval = PlainTd3(td3), td3.td3.policy_interval
    assert len(plain.critics) == (1 if settings == DDPG else 2)
    for number in range(10):
        batch = draw_batch(td3, seed=number)
        td3.update(batch, BEGINNING)
        noise = torch.from_numpy(CounterRng(draw_seed(1, "target_noise"), number).normal((8, 1)))[None]
        plain.update(batch, noise, with_actor=number % interval == interval - 1)
        td3.update_count += 1
    assert_equal_weights(td3.agent.network, "actor", "action", plain.actor)
    assert_equal_weights(td3.tensors.target.network, "actor", "action", plain.target_actor)
    ours = zip(td3.tensors.critics.networks, td3.tensors.critics.target.network, strict=True)
    for (critic, target), other, other_target in zip(ours, plain.critics, plain.targets, strict=True):
        assert_equal_weights(critic, "critic", "value", other)
        assert_equal_weights(target, "critic", "value", other_target)


def test_actor_and_targets_wait_for_their_interval(make):
    td3 = make("td3", settings={"policy_interval": 3})
    tensors = td3.tensors
    blocks = {
        "actor": tensors.optimizer.flat,
        "target actor": tensors.target.flat,
        "critics": tensors.critics.optimizer.flat,
        "target critics": tensors.critics.target.flat,
    }
    moved = []
    for number in range(6):
        before = {name: block.clone() for name, block in blocks.items()}
        figures = td3.update(draw_batch(td3, seed=number), BEGINNING)
        td3.update_count += 1
        assert ("losses/actor_loss" in figures) == (number % 3 == 2)
        moved.append([name for name, block in blocks.items() if not torch.equal(block, before[name])])
    assert moved == [["critics"], ["critics"], list(blocks)] * 2


def test_nothing_moves_when_a_target_is_not_finite(make):
    td3 = make("td3")
    batch = draw_batch(td3)
    batch.rewards[0, 3] = float("inf")
    before = td3.tensors.critics.optimizer.flat.clone(), td3.tensors.optimizer.flat.clone()
    with pytest.raises(NonFinite, match="gradient's norm"):
        td3.update(batch, BEGINNING)
    assert torch.equal(td3.tensors.critics.optimizer.flat, before[0])
    assert torch.equal(td3.tensors.optimizer.flat, before[1])


def test_the_actors_update_leaves_the_critics_as_they_are(make):
    td3 = make("td3")
    td3.update(draw_batch(td3), BEGINNING)  # critics have a gradient now, and a learning rate
    critics = td3.tensors.critics
    before, gradient = critics.optimizer.flat.clone(), critics.optimizer.grad.clone()
    td3.update_actor(draw_batch(td3).observations)
    assert torch.equal(critics.optimizer.flat, before)
    assert torch.equal(critics.optimizer.grad, gradient)


def test_exploration_is_relative_to_half_of_the_range(make):
    td3 = make("td3", settings={"env_count": 2, "exploration_noise": 0.5})
    observations = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], np.float32)
    unit = td3.explore(observations, Progress(0, 40, 1000))
    greedy = td3.act(observations) / 2  # torques are from -2 to 2
    noise = CounterRng(draw_seed(1, "exploration"), 20).normal((2, 1))
    np.testing.assert_allclose(unit, np.clip(greedy + 0.5 * noise, -1, 1), rtol=1e-5)


def test_discrete_actions_are_refused_with_what_fits(make):
    with pytest.raises(UsageError, match="algorithm=td3 cannot act") as caught:
        make("td3", "CartPole-v1")
    assert "ppo, pqn, dqn, sac" in caught.value.hint


@pytest.mark.parametrize(
    ("env", "settings"), [("Pendulum-v1", {}), ("Pendulum-v1", DDPG), ("Pendulum-v1", {"n_step": 3})]
)
def test_a_restored_state_goes_on_bit_for_bit(env, settings):
    config = config_of("td3", env, settings={"env_count": 2, **settings}, policy={"normalize_observations": True})
    state = trained(config, 4)
    other = resumed(state, new_training_state(config.model_copy(update={"total_steps": 1000})))
    expected, report = go_on(state, 4), go_on(other, 4)
    assert report.update == expected.update
    assert report.episodes == expected.episodes
    assert numbers_of(other) == numbers_of(state)


@pytest.mark.parametrize(
    "part", ["optimizer", "target", "critics", "critic_target", "critic_optimizer", "update_count", "replay_buffer"]
)
def test_leaving_out_any_one_part_is_seen(part):
    config = config_of("td3")
    state = trained(config, 4)
    if part == "replay_buffer":
        other = resumed(state, new_training_state(config), with_rows=False)
    else:
        other = resumed(state, new_training_state(config), fresh=(part,))
    go_on(state, 4)
    go_on(other, 4)
    assert numbers_of(other) != numbers_of(state)


def train_and_resume(group):
    """Weights of this rank after 6 iterations, and after 3, a resume and 3 more; what it saw."""
    config = config_of("td3", settings={"env_count": 2})
    state = trained(config, 3, group)
    other = resumed(state, new_training_state(config, group))
    go_on(state, 3)
    go_on(other, 3)
    return [numbers_of(state), numbers_of(other), state.algorithm.buffer.rewards.ravel().tolist()]


@pytest.mark.slow
def test_two_ranks_learn_one_policy_from_steps_of_their_own_and_resume_exactly(together):
    (first, first_resumed, first_seen), (second, second_resumed, second_seen) = together(train_and_resume)
    assert first == second == first_resumed == second_resumed
    assert first_seen != second_seen


@pytest.mark.parametrize(("env", "graph"), [("actors/Parts-v0", "mlp"), ("actors/Image-v0", "cnn")])
def test_images_and_named_parts_are_learned_from(env, graph):
    policy = {"graph": graph, "settings": {"size": 8} if graph == "cnn" else {"hidden": [5]}}
    config = config_of("td3", env, settings={"env_count": 2}, policy=policy)
    before = numbers_of(new_training_state(config))
    state = trained(config, 3)
    assert np.isfinite(numbers_of(state)).all()
    assert numbers_of(state) != before


def test_networks_read_normalised_observations_and_the_buffer_holds_raw_ones():
    config = config_of("td3", "actors/Parts-v0", policy={"normalize_observations": True})
    state = trained(config, 3)
    algorithm, buffer = state.algorithm, state.algorithm.buffer
    assert np.abs(buffer.blocks["goal"]).max() > 10
    indices = np.arange(40)
    batch = algorithm.tensors_of(buffer.gather(indices, 1, 0.99))
    raw = torch.from_numpy(buffer.blocks["goal"][:40, 0])
    normalizer = algorithm.agent.observation_normalizer.parts["part_goal"]
    torch.testing.assert_close(batch.observations["goal"][0], normalizer(raw))
    assert batch.observations["goal"].abs().max() < 4
