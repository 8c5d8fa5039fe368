import copy
import math

import numpy as np
import pytest
import torch

from palaestra.algorithms.advantages import estimate_advantages
from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.algorithms.ppo import update as ppo
from palaestra.algorithms.ppo.minibatches import shuffled_minibatches, split_rollout
from palaestra.algorithms.rollout import collect_rollout
from palaestra.config.policy import PolicyConfig
from palaestra.config.ppo import PpoConfig
from palaestra.config.schedule import constant
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.envs.make import make_env
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.policies.agent import Agent
from palaestra.policies.base import Policy, PolicyOutput
from palaestra.policies.distributions import Categorical
from palaestra.training.state import new_training_state


def rollout_of(config: TrainConfig):
    state = new_training_state(config)
    rollout, _, _ = collect_rollout(
        state.algorithm.policy(),
        state.envs,
        state.algorithm.buffer,
        state.algorithm.tensors.memory,
        state.algorithm.tensors.sampler,
    )
    return state, rollout, estimate_advantages(rollout, 0.99, 0.95)


def update(state, rollout, advantages, config: PpoConfig, progress: float = 0.0):
    return ppo.update(
        state.algorithm.policy(),
        state.algorithm.tensors.optimizer,
        rollout,
        advantages,
        config,
        progress,
        np.random.default_rng(0),
    )


SMALL = TrainConfig(ppo={"env_count": 4, "horizon": 40, "minibatch_size": 160, "update_epochs": 1})


def test_before_any_update_the_first_minibatchs_ratio_is_one():
    """With episodes that end inside the segment, and normalised observations."""
    state, rollout, advantages = rollout_of(SMALL)
    assert rollout.ended.any()
    stats = update(state, rollout, advantages, SMALL.ppo)
    assert stats.minibatches == 1
    assert abs(stats.approx_kl) < 1e-6
    assert abs(stats.old_approx_kl) < 1e-5
    assert stats.clipfrac == 0.0


@pytest.mark.parametrize("epochs", [1, 6])
def test_full_batch_steps_equal_ppo_written_out_with_autograd(epochs):
    """Returns are those of the rollout in every epoch, however far the critic has moved since."""
    config = SMALL.ppo.model_copy(
        update={"update_epochs": epochs, "clip_value_loss": False, "learning_rate": constant(1e-3)}
    )
    state, rollout, advantages = rollout_of(SMALL)
    other, *_ = rollout_of(SMALL)
    update(state, rollout, advantages, config)

    optimizer = torch.optim.Adam(other.algorithm.policy().parameters(), lr=1e-3, eps=1e-5)
    normal = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    for _ in range(epochs):
        distribution, value, _ = other.algorithm.policy()(rollout.observations, {}, None)
        ratio = (distribution.log_prob(rollout.actions) - rollout.log_probs).exp()
        policy_loss = torch.max(-normal * ratio, -normal * ratio.clamp(0.8, 1.2)).mean()
        value_loss = 0.5 * (value - advantages - rollout.values).square().mean()
        for parameter in other.algorithm.policy().parameters():
            parameter.grad = None
        (policy_loss + 0.5 * value_loss - 0.01 * distribution.entropy().mean()).backward()
        torch.nn.utils.clip_grad_norm_(other.algorithm.policy().parameters(), 0.5)
        optimizer.step()
    for mine, expected in zip(
        state.algorithm.policy().parameters(), other.algorithm.policy().parameters(), strict=True
    ):
        assert torch.allclose(mine, expected, atol=1e-5)


def test_the_schedules_set_what_the_update_uses():
    state, rollout, advantages = rollout_of(SMALL)
    stats = update(state, rollout, advantages, SMALL.ppo, progress=0.5)
    assert math.isclose(stats.learning_rate, 1.25e-4)
    assert math.isclose(state.algorithm.tensors.optimizer.learning_rate, 1.25e-4)


def test_epochs_stop_early_when_the_policy_has_moved_too_far():
    eager = PpoConfig(env_count=4, horizon=40, minibatch_size=40, update_epochs=10, learning_rate=0.05, target_kl=0.02)
    state, rollout, advantages = rollout_of(SMALL)
    assert 4 <= update(state, rollout, advantages, eager).minibatches < 40
    patient = eager.model_copy(update={"target_kl": None})
    state, rollout, advantages = rollout_of(SMALL)
    assert update(state, rollout, advantages, patient).minibatches == 40


class Leaky(Policy):
    """Memory that can be checked by hand: a running mean of what was seen since the episode began."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = torch.nn.Linear(4, 8)
        self.heads = torch.nn.Linear(8, 3)

    def initial_memory(self, batch_size):
        return {"trace": torch.zeros(batch_size, 8)}

    def forward(self, observation, memory, starts=None):
        trace, traces = memory["trace"], []
        for step, seen in enumerate(self.mix(observation)):
            if starts is not None:
                trace = trace.masked_fill(starts[step].unsqueeze(-1), 0.0)
            trace = 0.5 * trace + seen
            traces.append(trace)
        heads = self.heads(torch.stack(traces).tanh())
        return PolicyOutput(Categorical(heads[..., :2]), heads[..., 2], {"trace": trace})


@pytest.mark.parametrize(("segment_length", "warm_up"), [(None, 0), (10, 0), (10, 2), (40, 1)])
def test_with_memory_the_ratio_is_one_before_any_update_though_episodes_end_inside_segments(segment_length, warm_up):
    config = SMALL.ppo.model_copy(update={"segment_length": segment_length, "minibatch_size": 80})
    envs = InProcessEnvs(lambda: make_env(SMALL.env), 4)
    torch.manual_seed(0)
    agent = Agent(Leaky(), envs.interface, normalize_observations=True, normalize_returns=False)
    stretch = ppo.segment_length_of(agent, config)
    buffer = RolloutBuffer(envs.interface.observation_space, 40, 4)
    envs.reset([1, 2, 3, 4], buffer.rows[0])
    memory, sampler = agent.initial_memory(4), torch.Generator().manual_seed(1)
    for _ in range(warm_up + 1):  # later rollouts begin in mid-episode, with memory
        rollout, memory, _ = collect_rollout(agent, envs, buffer, memory, sampler, stretch)
        final = copy.deepcopy(rollout)
        buffer.rewind()
    assert final.ended[:-1].any()
    columns = split_rollout(final, final.rewards, stretch)
    for minibatch in shuffled_minibatches(columns, 80 // stretch, np.random.default_rng(0)):
        with torch.no_grad():
            distribution, value, _ = agent(minibatch.observations, minibatch.memory, minibatch.starts)
        ratio = (distribution.log_prob(minibatch.actions) - minibatch.log_probs).exp()
        assert float((ratio - 1).abs().max()) < 1e-5
        assert torch.allclose(value, minibatch.values, atol=1e-5)


@pytest.mark.parametrize("segment_length", [None, 10])
def test_an_update_through_memory_begins_at_a_ratio_of_one(segment_length):
    """As the test above, of what the update itself does: the second rollout starts in mid-episode, with memory."""
    config = SMALL.model_copy(
        update={
            "policy": PolicyConfig(graph="memory"),
            "ppo": SMALL.ppo.model_copy(update={"segment_length": segment_length}),
        }
    )
    state = new_training_state(config)
    with torch.no_grad():  # a new head hardly looks at what it is given; this one does
        state.algorithm.policy().network.nodes["action"].layer.weight.mul_(100)
    for _ in range(2):
        rollout, state.algorithm.tensors.memory, _ = collect_rollout(
            state.algorithm.policy(),
            state.envs,
            state.algorithm.buffer,
            state.algorithm.tensors.memory,
            state.algorithm.tensors.sampler,
            state.algorithm.tensors.segment_length,
        )
        rollout = copy.deepcopy(rollout)
        state.algorithm.buffer.rewind()
    assert rollout.ended[:-1].any()
    assert all(part.abs().sum() > 0 for part in rollout.memory.values())
    stats = ppo.update(
        state.algorithm.policy(),
        state.algorithm.tensors.optimizer,
        rollout,
        rollout.rewards,
        config.ppo,
        0.0,
        state.algorithm.shuffler,
        segment_length=state.algorithm.tensors.segment_length,
    )
    assert stats.minibatches == 1
    assert abs(stats.approx_kl) < 1e-6
    assert abs(stats.old_approx_kl) < 1e-5


def test_a_minibatch_that_cannot_hold_whole_segments_is_refused_with_the_numbers():
    envs = InProcessEnvs(lambda: make_env(SMALL.env), 1)
    agent = Agent(Leaky(), envs.interface, normalize_observations=False, normalize_returns=False)
    with pytest.raises(UsageError, match=r"minibatch_size=128 .* segments of 40 steps.*minibatch_size=120"):
        ppo.segment_length_of(agent, PpoConfig(env_count=16, horizon=40, minibatch_size=128))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 2.0, 3.0], 1.0), ([2.0, 2.0, 2.0], 0.0), ([3.0, 2.0, 1.0], -3.0)],
)
def test_explained_variance_of_known_critics(values, expected):
    assert math.isclose(
        ppo.explained_variance(torch.tensor(values), torch.tensor([1.0, 2.0, 3.0])), expected, abs_tol=1e-6
    )


def test_returns_that_do_not_vary_have_no_explained_variance():
    assert math.isnan(ppo.explained_variance(torch.zeros(3), torch.ones(3)))
