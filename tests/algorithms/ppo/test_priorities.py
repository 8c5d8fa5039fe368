import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.algorithms.ppo.minibatches import Columns
from palaestra.algorithms.ppo.priorities import draw_chances, prioritized_minibatches


def columns_with(advantages: torch.Tensor) -> Columns:
    """Column i carries the number i as its action."""
    length, count = advantages.shape
    numbers = torch.arange(count).expand(length, count)
    blank = torch.zeros(length, count)
    return Columns(blank, numbers, blank, blank, advantages, blank, blank > 0, {"cell": torch.arange(count)})


def draws(columns: Columns, epochs: int, seed: int, **options) -> tuple[torch.Tensor, torch.Tensor]:
    """Which columns were drawn, and with which weights."""
    shuffler = np.random.default_rng(seed)
    drawn, weights = [], []
    for _ in range(epochs):
        for minibatch in prioritized_minibatches(columns, 1, shuffler, **options):
            assert torch.equal(minibatch.memory["cell"], minibatch.actions[0])
            drawn.append(minibatch.actions[0])
            weights.append(minibatch.weights[0])
    return torch.cat(drawn), torch.cat(weights)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 12), st.floats(0, 2), st.integers(0, 10**6))
def test_chances_are_the_mean_size_of_advantages_to_the_power_alpha(length, count, alpha, seed):
    advantages = torch.randn(length, count, generator=torch.Generator().manual_seed(seed))
    sizes = [sum(abs(float(a)) for a in advantages[:, i]) / length + 1e-6 for i in range(count)]
    total = sum(size**alpha for size in sizes)
    expected = torch.tensor([size**alpha / total for size in sizes], dtype=torch.float64)
    assert torch.allclose(draw_chances(advantages, alpha), expected, rtol=1e-6)


def test_columns_are_drawn_as_often_as_their_chances_say():
    advantages = torch.tensor([[0.1, -2.0, 1.0, 0.0, -0.5], [0.3, 0.0, 1.0, 0.0, 0.5]])
    drawn, _ = draws(columns_with(advantages), 1500, 1, alpha=0.8, beta=0.5)
    counted = torch.bincount(drawn, minlength=5) / len(drawn)
    assert torch.allclose(
        counted.double(), draw_chances(advantages, 0.8), atol=0.02
    )  # 7 500 draws: deviation at most 0.006


def test_at_beta_one_the_expected_gradient_is_the_uniform_one_and_below_it_is_not():
    """Any numbers g_i stand for gradients: their weighted mean over draws against their plain mean."""
    generator = torch.Generator().manual_seed(0)
    advantages = torch.randn(2, 6, generator=generator)
    gradients = advantages.abs().mean(dim=0) * 3 + torch.randn(6, generator=generator)
    means, draw_count = {}, 800 * 6
    for beta in (0.0, 1.0):
        drawn, weights = draws(columns_with(advantages), 800, 2, alpha=1.0, beta=beta)
        means[beta] = float((gradients[drawn] * weights).mean())
    uniform = float(gradients.mean())
    chances = draw_chances(advantages, 1.0)
    spread = float(((gradients / (6 * chances)).square() * chances).sum() - uniform**2) ** 0.5
    tolerance = 4 * spread / draw_count**0.5
    assert abs(means[1.0] - uniform) < tolerance
    assert abs(means[0.0] - uniform) > 2 * tolerance


def test_without_alpha_all_weights_are_one():
    drawn, weights = draws(columns_with(torch.randn(1, 8)), 50, 3, alpha=0.0, beta=1.0)
    assert torch.allclose(weights, torch.ones(len(weights)))
    assert len(set(drawn.tolist())) == 8


def test_advantages_of_zero_everywhere_are_drawn_uniformly():
    assert torch.allclose(draw_chances(torch.zeros(3, 4), 0.8), torch.full((4,), 0.25, dtype=torch.float64))


def test_normalised_advantages_have_the_mean_and_deviation_of_the_whole_rollout_not_of_what_was_drawn():
    advantages = torch.tensor([[0.0, 0.0, 0.0, 8.0]])
    expected = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    shuffler = np.random.default_rng(0)
    options = {"alpha": 1.0, "beta": 1.0, "normalize_advantages": True}
    for minibatch in prioritized_minibatches(columns_with(advantages), 2, shuffler, **options):
        assert torch.allclose(minibatch.advantages, expected[:, minibatch.actions[0]], atol=1e-6)
