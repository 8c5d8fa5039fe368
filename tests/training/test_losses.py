import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.training.losses import LossWeights, ppo_loss


def loss_by_autograd(log_prob, entropy, value, old, weights):
    """CleanRL's formula, term by term, differentiated by torch."""
    old_log_prob, old_value, advantage, returns = old
    ratio = (log_prob - old_log_prob).exp()
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
    old = (normal(), normal(), normal(), normal())
    leaves = (old[0] + normal(spread), normal().abs(), old[1] + normal(spread))
    return tuple(leaf.detach().requires_grad_() for leaf in leaves), old


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.01, 0.2, 2.0]), st.booleans(), st.floats(0.05, 0.4))
def test_the_gradient_written_out_equals_autograd_on_every_branch(seed, spread, clip_value, clip):
    weights = LossWeights(clip=clip, clip_value=clip_value, value=0.7, entropy=0.03)
    leaves, old = draw(seed, spread)
    loss, _ = ppo_loss(*leaves, old, weights)
    ours = torch.autograd.grad(loss * 3, leaves)
    reference = loss_by_autograd(*leaves, old, weights)
    theirs = torch.autograd.grad(reference * 3, leaves)
    assert torch.allclose(loss, reference, rtol=1e-12, atol=1e-12)
    for mine, expected in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, expected, rtol=1e-10, atol=1e-12)


def test_wide_moves_are_clipped_and_counted():
    leaves, old = draw(0, 2.0)
    _, terms = ppo_loss(*leaves, old, LossWeights(0.2, True, 0.5, 0.0))
    ratio = (leaves[0] - old[0]).exp()
    advantage = old[2]
    binding = ((advantage > 0) & (ratio > 1.2)) | ((advantage < 0) & (ratio < 0.8))
    assert torch.equal(terms.clipped, binding)
    assert 0 < int(binding.sum()) < binding.numel()


def test_a_policy_that_has_not_moved_has_ratio_one_and_no_clipping():
    leaves, old = draw(1, 0.0)
    _, terms = ppo_loss(*leaves, old, LossWeights(0.2, True, 0.5, 0.01))
    assert torch.equal(terms.ratio, torch.ones_like(terms.ratio))
    assert not terms.clipped.any()
