import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.algorithms.advantages import estimate_advantages
from palaestra.algorithms.rollout import Rollout
from palaestra.algorithms.vtrace import vtrace
from palaestra.config.ppo_options import VtraceConfig


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
