import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.algorithms.advantages import estimate_advantages
from palaestra.algorithms.rollout import Rollout


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
