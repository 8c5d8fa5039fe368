from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.algorithms.advantages import estimate_advantages, vtrace
from palaestra.algorithms.rollout import Rollout
from palaestra.config.ppo_options import VtraceConfig


def make_rollout(rewards, values, next_values, ended) -> Rollout:
    blank = torch.zeros_like(rewards)
    return Rollout(
        observations=blank,
        actions=blank,
        log_probs=blank,
        values=values,
        next_values=next_values,
        rewards=rewards,
        ended=ended,
        starts=torch.zeros_like(ended),
        memory={},
    )


def lambda_return_written_out(rollout: Rollout, step: int, env: int, gamma: float, gae_lambda: float) -> float:
    """Sum over n of (1 - lambda) lambda^(n-1) times the n-step return, as Sutton and Barto define it."""
    rewards, next_values, ended = (
        column[:, env].tolist() for column in (rollout.rewards, rollout.next_values, rollout.ended)
    )
    last = next((t for t in range(step, len(rewards)) if ended[t]), len(rewards) - 1)
    n_step_returns = []
    for end in range(step, last + 1):
        discounted = sum(gamma ** (t - step) * rewards[t] for t in range(step, end + 1))
        n_step_returns.append(discounted + gamma ** (end - step + 1) * next_values[end])
    total = sum((1 - gae_lambda) * gae_lambda**n * value for n, value in enumerate(n_step_returns[:-1]))
    return total + gae_lambda ** (len(n_step_returns) - 1) * n_step_returns[-1]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1))
def test_advantages_match_the_lambda_return_written_out(steps, envs, seed, gamma, gae_lambda):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: torch.randn(steps, envs, generator=generator, dtype=torch.float64)  # noqa: E731
    ended = torch.rand(steps, envs, generator=generator) < 0.3
    values, next_values = draw(), draw()
    next_values[:-1] = torch.where(ended[:-1], next_values[:-1], values[1:])
    rollout = make_rollout(draw(), values, next_values, ended)
    advantages = estimate_advantages(rollout, gamma, gae_lambda)
    for step in range(steps):
        for env in range(envs):
            expected = lambda_return_written_out(rollout, step, env, gamma, gae_lambda) - rollout.values[step, env]
            assert abs(float(advantages[step, env] - expected)) < 1e-9


def test_the_last_step_of_a_segment_has_its_advantage_too():
    rollout = make_rollout(
        torch.tensor([[0.0], [0.0], [3.0]]),
        torch.zeros(3, 1),
        torch.tensor([[0.0], [0.0], [10.0]]),
        torch.zeros(3, 1) > 0,
    )
    assert float(estimate_advantages(rollout, 0.5, 0.95)[-1, 0]) == 8.0


def test_nothing_of_the_next_episode_reaches_the_one_that_was_cut():
    """Two episodes in one row; the second is worth a fortune, the first was worth exactly what it got."""
    rewards = torch.tensor([[1.0], [1.0], [1000.0]])
    ended = torch.tensor([[False], [True], [True]])
    values = torch.tensor([[2.0], [1.0], [0.0]])
    next_values = torch.tensor([[1.0], [0.0], [0.0]])  # terminated: nothing follows
    advantages = estimate_advantages(make_rollout(rewards, values, next_values, ended), 1.0, 0.95)
    assert advantages[:2].flatten().tolist() == [0.0, 0.0]


def test_a_truncated_step_bootstraps_from_the_value_of_its_own_last_observation():
    rollout = make_rollout(
        torch.tensor([[1.0], [7.0]]), torch.zeros(2, 1), torch.tensor([[5.0], [0.0]]), torch.tensor([[True], [True]])
    )
    assert float(estimate_advantages(rollout, 0.9, 0.95)[0, 0]) == 1.0 + 0.9 * 5.0


def random_rollout(steps: int, envs: int, seed: int) -> tuple[Rollout, torch.Tensor]:
    """In float64, with ends and cuts; also the present policy's log-probabilities."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: torch.randn(steps, envs, generator=generator, dtype=torch.float64)  # noqa: E731
    ended = torch.rand(steps, envs, generator=generator) < 0.25
    values, next_values = draw(), draw()
    next_values[:-1] = torch.where(ended[:-1], next_values[:-1], values[1:])
    acted, blank = draw() - 1, torch.zeros(steps, envs)
    rollout = Rollout(blank, blank, acted, values, next_values, draw(), ended, blank > 0, {})
    return rollout, acted + 0.7 * draw()


def vtrace_written_out(rollout, present, env, gamma, gae_lambda, config):
    """Espeholt et al., equation 1: for every step the full sum over all later ones, with its product of c."""
    rewards, values, next_values, ended = (
        field[:, env].tolist() for field in (rollout.rewards, rollout.values, rollout.next_values, rollout.ended)
    )
    ratios = (present - rollout.log_probs)[:, env].exp().tolist()
    surprise = [r + gamma * after - v for r, after, v in zip(rewards, next_values, values, strict=True)]
    targets, advantages = [], []
    for start in range(len(rewards)):
        target, reach, gap_after = values[start], 1.0, 0.0
        for step in range(start, len(rewards)):
            term = reach * min(config.rho_clip, ratios[step]) * surprise[step]
            target += term
            if step > start:
                gap_after += term / (gamma * gae_lambda * min(config.c_clip, ratios[start]))
            if ended[step]:
                break
            reach *= gamma * gae_lambda * min(config.c_clip, ratios[step])
        targets.append(target)
        advantages.append(surprise[start] + gamma * gae_lambda * gap_after)
    return targets, advantages


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(0, 10**6),
    st.floats(0.1, 1),
    st.floats(0.1, 1),
    st.floats(0.2, 3),
    st.floats(0.2, 3),
)
def test_targets_and_advantages_match_the_sums_written_out(steps, envs, seed, gamma, gae_lambda, rho_clip, c_clip):
    config = VtraceConfig(enabled=True, rho_clip=rho_clip, c_clip=c_clip)
    rollout, present = random_rollout(steps, envs, seed)
    advantages, returns = vtrace(rollout, present, gamma, gae_lambda, config)
    assert advantages.shape == returns.shape == (steps, envs)
    for env in range(envs):
        targets, expected = vtrace_written_out(rollout, present, env, gamma, gae_lambda, config)
        assert torch.allclose(returns[:, env], torch.tensor(targets, dtype=torch.float64), atol=1e-9)
        assert torch.allclose(advantages[:, env], torch.tensor(expected, dtype=torch.float64), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1), st.floats(1, 9))
def test_while_the_policy_has_not_moved_it_is_gae_whatever_lambda_and_clips_from_one_on(
    steps, envs, seed, gamma, gae_lambda, clip
):
    rollout, _ = random_rollout(steps, envs, seed)
    config = VtraceConfig(enabled=True, rho_clip=clip, c_clip=clip)
    advantages, returns = vtrace(rollout, rollout.log_probs, gamma, gae_lambda, config)
    gae = estimate_advantages(rollout, gamma, gae_lambda)
    assert torch.allclose(advantages, gae, atol=1e-12)
    assert torch.allclose(returns, rollout.values + gae, atol=1e-12)


def test_clips_below_one_part_from_gae_even_when_the_policy_has_not_moved():
    rollout, _ = random_rollout(6, 3, 0)
    tight = VtraceConfig(enabled=True, rho_clip=0.5, c_clip=0.5)
    returns = vtrace(rollout, rollout.log_probs, 0.9, 0.9, tight).returns
    assert not torch.allclose(returns, rollout.values + estimate_advantages(rollout, 0.9, 0.9), atol=1e-3)


def test_an_action_that_the_policy_has_given_up_no_longer_carries_what_came_after():
    """Ratio near 0 at step 1: neither its surprise nor anything later reaches the target of step 0."""
    rollout, _ = random_rollout(4, 1, 3)
    open_ended = Rollout(**{**vars(rollout), "ended": torch.zeros(4, 1, dtype=torch.bool)})
    present = open_ended.log_probs.clone()
    present[1] -= 50.0
    target = vtrace(open_ended, present, 0.9, 1.0, VtraceConfig(enabled=True)).returns[0, 0]
    first = open_ended.rewards[0, 0] + 0.9 * open_ended.next_values[0, 0]
    assert abs(float(target - first)) < 1e-9
