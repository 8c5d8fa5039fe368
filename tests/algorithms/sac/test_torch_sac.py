"""SAC's updates against another implementation, with torch.optim.Adam and torch.distributions."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from palaestra.algorithms.base import Progress
from palaestra.algorithms.counter_rng import CounterRng
from palaestra.algorithms.sac.torch_sac import draw_choices
from palaestra.core.errors import NonFinite
from palaestra.core.seeds import draw_seed
from palaestra.policies.distributions import Categorical
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
RATES = {"learning_rate": 3e-3, "critic_learning_rate": 5e-3}


class PlainSac:
    """One update after another as the papers write them."""

    def __init__(self, algorithm, *, discrete):
        tensors = algorithm.tensors
        self.discrete = discrete
        self.actor = copied(algorithm.agent.network, "actor", "action")
        self.critics = [copied(critic, "critic", "value") for critic in tensors.critics.networks]
        self.targets = copy.deepcopy(self.critics)
        self.log_alpha = tensors.temperature.log_alpha.clone().requires_grad_()
        weights = [weight for critic in self.critics for weight in critic.parameters()]
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=3e-3)
        self.critic_optimizer = torch.optim.Adam(weights, lr=5e-3)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], lr=3e-3)
        self.target_entropy = 0.89 * np.log(2) if discrete else -1.0

    def policy(self, observations, noise):
        """Actions from -1 to 1, and log probabilities of the torque, which is from -2 to 2."""
        mean, log_std = self.actor(observations).chunk(2, dim=-1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
        squashed = torch.distributions.TransformedDistribution(
            normal,
            [torch.distributions.TanhTransform(), torch.distributions.AffineTransform(0.0, 2.0)],
        )
        u = mean + noise * normal.stddev
        return torch.tanh(u), squashed.log_prob(2 * torch.tanh(u)).sum(-1)

    def values(self, critics, observations, actions):
        inputs = observations if actions is None else torch.cat([observations, actions], -1)
        outputs = torch.stack([critic(inputs) for critic in critics])
        return outputs if actions is None else outputs.squeeze(-1)

    def update(self, batch, target_noise, noises):
        alpha = self.log_alpha.exp().item()
        with torch.no_grad():
            if self.discrete:
                chances = torch.softmax(self.actor(batch.next_observations), -1)
                following = self.values(self.targets, batch.next_observations, None).amin(0)
                following = (chances * (following - alpha * chances.log())).sum(-1)
            else:
                actions, log_probs = self.policy(batch.next_observations, target_noise)
                following = self.values(self.targets, batch.next_observations, actions).amin(0) - alpha * log_probs
            target = batch.rewards + batch.discounts * following
        if self.discrete:
            values = self.values(self.critics, batch.observations, None)
            values = torch.stack([each[0, torch.arange(8), batch.actions[0]][None] for each in values])
        else:
            values = self.values(self.critics, batch.observations, batch.actions)
        self.step(self.critic_optimizer, sum(nn.functional.mse_loss(each, target) for each in values))
        for noise in noises:
            self.update_actor(batch, noise)
        with torch.no_grad():
            for target_net, critic in zip(self.targets, self.critics, strict=True):
                for one, other in zip(target_net.parameters(), critic.parameters(), strict=True):
                    one.copy_(0.005 * other + 0.995 * one)

    def update_actor(self, batch, noise):
        alpha = self.log_alpha.exp().item()
        if self.discrete:
            chances = torch.softmax(self.actor(batch.observations), -1)
            with torch.no_grad():
                values = self.values(self.critics, batch.observations, None).amin(0)
            loss = (chances * (alpha * chances.log() - values)).sum(-1).mean()
            entropy = -(chances * chances.log()).sum(-1).mean().detach()
        else:
            actions, log_probs = self.policy(batch.observations, noise)
            loss = (alpha * log_probs - self.values(self.critics, batch.observations, actions).amin(0)).mean()
            entropy = -log_probs.mean().detach()
        self.step(self.actor_optimizer, loss)
        self.step(self.alpha_optimizer, (self.log_alpha * (entropy - self.target_entropy)).sum())

    def step(self, optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def normal(purpose, index, size=1):
    return torch.from_numpy(CounterRng(draw_seed(1, purpose), index).normal((8, size)))[None]


@pytest.mark.parametrize("policy_interval", [1, 2])
@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_ten_updates_are_those_of_another_implementation(make, env, policy_interval):
    sac = make("sac", env, settings={**RATES, "policy_interval": policy_interval})
    plain = PlainSac(sac, discrete=env == "CartPole-v1")
    for number in range(10):
        batch = draw_batch(sac, seed=number)
        sac.update(batch, BEGINNING)
        is_due = number % policy_interval == policy_interval - 1
        noises = [normal("noise", number + repeat) for repeat in range(policy_interval)] if is_due else []
        plain.update(batch, normal("target_noise", number), noises)
        sac.update_count += 1
    assert_equal_weights(sac.agent.network, "actor", "action", plain.actor)
    for critic, target, other, other_target in zip(
        sac.tensors.critics.networks, sac.tensors.critics.target.network, plain.critics, plain.targets, strict=True
    ):
        assert_equal_weights(critic, "critic", "value", other)
        assert_equal_weights(target, "critic", "value", other_target)
    torch.testing.assert_close(sac.tensors.temperature.log_alpha, plain.log_alpha.detach(), atol=1e-5, rtol=0)


def test_nothing_moves_when_a_target_is_not_finite(make):
    sac = make("sac")
    batch = draw_batch(sac)
    batch.rewards[0, 3] = float("inf")
    before = sac.tensors.critics.optimizer.flat.clone(), sac.tensors.optimizer.flat.clone()
    with pytest.raises(NonFinite, match="gradient's norm"):
        sac.update(batch, BEGINNING)
    assert torch.equal(sac.tensors.critics.optimizer.flat, before[0])
    assert torch.equal(sac.tensors.optimizer.flat, before[1])


def test_the_actors_update_leaves_critics_and_their_optimizer_as_they_are(make):
    for env in ("Pendulum-v1", "CartPole-v1"):
        sac = make("sac", env)
        batch = draw_batch(sac)
        sac.update(batch, BEGINNING)  # critics have a gradient now, and a learning rate
        critics, actor = sac.tensors.critics, sac.tensors.optimizer.flat.clone()
        before, gradient = critics.optimizer.flat.clone(), critics.optimizer.grad.clone()
        sac.update_actor(batch.observations, 0)
        assert not torch.equal(sac.tensors.optimizer.flat, actor)
        assert torch.equal(critics.optimizer.flat, before)
        assert torch.equal(critics.optimizer.grad, gradient)


def test_the_temperatures_gradient_is_by_its_logarithm(make):
    sac = make("sac", settings={"initial_temperature": 0.2})
    figures = sac.update(draw_batch(sac), BEGINNING)
    assert figures["losses/alpha"] == pytest.approx(0.2)
    gradient = figures["losses/entropy"] - sac.target_entropy
    assert sac.tensors.temperature.grad.item() == pytest.approx(gradient)
    assert figures["losses/alpha_loss"] == pytest.approx(np.log(0.2) * gradient)


def test_a_fixed_temperature_stays(make):
    sac = make("sac", settings={"temperature": 0.2})
    figures = sac.update(draw_batch(sac), BEGINNING)
    assert figures["losses/alpha"] == pytest.approx(0.2)
    assert sac.tensors.temperature.value == pytest.approx(0.2)
    assert "losses/alpha_loss" not in figures


def test_figures_have_the_names_of_cleanrl(make):
    sac = make("sac")
    assert sac.update(draw_batch(sac), BEGINNING).keys() == {
        *(f"losses/qf{number}_{what}" for number in (1, 2) for what in ("values", "loss")),
        *(f"losses/{name}" for name in ("qf_loss", "actor_loss", "alpha", "alpha_loss", "entropy")),
        "charts/learning_rate",
    }


def test_exploring_draws_from_the_policy_with_the_numbers_of_its_stream(make):
    sac = make("sac", settings={"env_count": 2})
    observations = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], np.float32)
    actions = sac.explore(observations, Progress(0, 40, 1000))
    gaussian = sac.agent.act(torch.from_numpy(observations)[None], {}).distribution
    noise = CounterRng(draw_seed(1, "exploration"), 20).normal((2, 1))  # 40 steps of 2 environments: row 20
    expected = torch.tanh(gaussian.mean[0] + torch.from_numpy(noise) * gaussian.log_std[0].exp())
    np.testing.assert_allclose(actions, expected.detach().numpy(), rtol=1e-6)


def test_choices_are_drawn_as_often_as_they_are_probable():
    chances = torch.tensor([[[0.1, 0.6, 0.3]]])
    policy = Categorical(chances.log().expand(1, 100_000, 3))
    drawn = draw_choices(policy, CounterRng(1, 1).uniform(100_000))
    np.testing.assert_allclose(np.bincount(drawn) / 100_000, [0.1, 0.6, 0.3], atol=0.005)


def test_the_last_choice_is_the_limit_where_probabilities_add_up_to_less_than_one():
    policy = Categorical(torch.full((1, 1, 3), -5.0))
    policy.log_probs = torch.tensor([[[0.3, 0.3, 0.39999]]]).log()
    assert draw_choices(policy, np.array([0.999999], np.float32)).tolist() == [2]


@pytest.mark.parametrize(
    ("env", "settings"),
    [("Pendulum-v1", {"policy_interval": 2}), ("CartPole-v1", {"n_step": 3}), ("Pendulum-v1", {"temperature": 0.2})],
)
def test_a_restored_state_goes_on_bit_for_bit(env, settings):
    config = config_of("sac", env, settings={"env_count": 2, **settings}, policy={"normalize_observations": True})
    state = trained(config, 4)
    other = resumed(state, new_training_state(config.model_copy(update={"total_steps": 1000})))
    expected, report = go_on(state, 4), go_on(other, 4)
    assert report.update == expected.update
    assert report.episodes == expected.episodes
    assert numbers_of(other) == numbers_of(state)


@pytest.mark.parametrize(
    "part",
    ["optimizer", "critics", "critic_target", "critic_optimizer", "temperature", "update_count", "replay_buffer"],
)
def test_leaving_out_any_one_part_is_seen(part):
    config = config_of("sac")
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
    config = config_of("sac", settings={"env_count": 2})
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
    config = config_of("sac", env, settings={"env_count": 2}, policy=policy)
    before = numbers_of(new_training_state(config))
    state = trained(config, 3)
    assert np.isfinite(numbers_of(state)).all()
    assert numbers_of(state) != before


def test_networks_read_normalised_observations_and_the_buffer_holds_raw_ones():
    config = config_of("sac", "actors/Parts-v0", policy={"normalize_observations": True})
    state = trained(config, 3)
    algorithm, buffer = state.algorithm, state.algorithm.buffer
    assert np.abs(buffer.blocks["goal"]).max() > 10
    indices = np.arange(40)
    batch = algorithm.tensors_of(buffer.gather(indices, 1, 0.99))
    raw = torch.from_numpy(buffer.blocks["goal"][:40, 0])
    normalizer = algorithm.agent.observation_normalizer.parts["part_goal"]
    torch.testing.assert_close(batch.observations["goal"][0], normalizer(raw))
    assert batch.observations["goal"].abs().max() < 4
