import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.algorithms.ppo.loss import LossWeights, ppo_loss
from palaestra.algorithms.ppo.minibatches import Minibatch


def loss_by_autograd(log_prob, entropy, value, old, weights):
    """CleanRL's formula, term by term, differentiated by torch."""
    advantage, returns, old_value = old.advantages, old.returns, old.values
    ratio = (log_prob - old.log_probs).exp()
    policy = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - weights.clip, 1 + weights.clip)).mean()
    if weights.clip_value:
        bounded = old_value + (value - old_value).clamp(-weights.clip, weights.clip)
        value_loss = 0.5 * torch.max((value - returns) ** 2, (bounded - returns) ** 2).mean()
    else:
        value_loss = 0.5 * ((value - returns) ** 2).mean()
    return policy + weights.value * value_loss - weights.entropy * entropy.mean()


def draw(seed: int, spread: float):
    generator = torch.Generator().manual_seed(seed)
    normal = lambda scale=1.0: torch.randn(1, 33, generator=generator, dtype=torch.float64) * scale  # noqa: E731
    blank = torch.zeros(1, 33)
    old = Minibatch(
        observations=blank,
        actions=blank,
        log_probs=normal(),
        values=normal(),
        advantages=normal(),
        returns=normal(),
        starts=blank > 0,
        memory={},
    )
    leaves = (old.log_probs + normal(spread), normal().abs(), old.values + normal(spread))
    return tuple(leaf.detach().requires_grad_() for leaf in leaves), old


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.01, 0.2, 2.0]), st.booleans(), st.floats(0.05, 0.4))
def test_the_slopes_written_out_equal_autograds_on_every_branch(seed, spread, clip_value, clip):
    weights = LossWeights(clip=clip, clip_value=clip_value, value=0.7, entropy=0.03)
    leaves, old = draw(seed, spread)
    gradients, terms = ppo_loss(*leaves, old, weights)
    reference = loss_by_autograd(*leaves, old, weights)
    expected_slopes = torch.autograd.grad(reference, leaves)
    loss = (-terms.objective + weights.value * 0.5 * terms.squared_error - weights.entropy * terms.entropy).mean()
    assert torch.allclose(loss, reference, rtol=1e-12, atol=1e-12)
    for gradient, expected in zip(gradients, expected_slopes, strict=True):
        assert torch.allclose(gradient, expected, rtol=1e-10, atol=1e-12)


def test_wide_moves_are_clipped_and_counted():
    leaves, old = draw(0, 2.0)
    _, terms = ppo_loss(*leaves, old, LossWeights(0.2, True, 0.5, 0.0))
    ratio = (leaves[0] - old.log_probs).exp()
    advantage = old.advantages
    binding = ((advantage > 0) & (ratio > 1.2)) | ((advantage < 0) & (ratio < 0.8))
    assert torch.equal(terms.clipped, binding)
    assert 0 < int(binding.sum()) < binding.numel()


def test_a_policy_that_has_not_moved_has_ratio_one_and_no_clipping():
    leaves, old = draw(1, 0.0)
    _, terms = ppo_loss(*leaves, old, LossWeights(0.2, True, 0.5, 0.01))
    assert torch.equal(terms.ratio, torch.ones_like(terms.ratio))
    assert not terms.clipped.any()
