import pytest
import torch

from palaestra.policies.components.base import Misfit


def test_each_query_hears_the_tokens_by_how_well_they_match(make):
    torch.manual_seed(0)
    node = make("attention", [5, 3], queries=2, size=4, heads=2)
    tokens = torch.randn(1, 5, 3)
    keys, values = node.read(tokens)[0].split(4, dim=-1)
    heard = torch.zeros(2, 4)
    for query in range(2):
        for head in (slice(0, 2), slice(2, 4)):
            scores = torch.stack([node.queries[query, head] @ key[head] for key in keys]) / 2**0.5
            weights = scores.exp() / scores.exp().sum()
            heard[query, head] = sum(weight * value[head] for weight, value in zip(weights, values, strict=True))
    torch.testing.assert_close(node(tokens)[0], torch.relu(node.write(heard)))
    assert node.output.shape == (2, 4)


def test_absent_tokens_are_not_heard(make):
    torch.manual_seed(0)
    node = make("attention", [4, 3], [4], queries=3, size=8, heads=2)
    tokens, present = torch.randn(2, 4, 3), torch.tensor([[1.0, 0, 1, 0], [1, 1, 1, 0]])
    changed = tokens + 100 * (1 - present).unsqueeze(-1)
    torch.testing.assert_close(node(tokens, present), node(changed, present))
    alone = node(tokens[:1, [0, 2]], torch.ones(1, 2))
    torch.testing.assert_close(node(tokens, present)[:1], alone)


def test_the_order_of_tokens_does_not_matter(make):
    node = make("attention", [4, 3], queries=3, size=8)
    tokens = torch.randn(1, 4, 3)
    torch.testing.assert_close(node(tokens), node(tokens[:, [2, 0, 3, 1]]))


def test_nothing_to_hear_gives_finite_numbers_and_gradients(make):
    node = make("attention", [4, 3], [4], queries=3, size=8)
    output = node(torch.zeros(1, 4, 3), torch.zeros(1, 4))
    output.sum().backward()
    assert output.isfinite().all()
    assert all(weights.grad.isfinite().all() for weights in node.parameters())


@pytest.mark.parametrize(
    ("shapes", "settings", "complaint"),
    [
        (([5],), {}, r"needs tokens \[tokens, numbers\], not 'a' \[5\]"),
        (([5, 3], [4]), {}, r"must be \[5\]: 'b' \[4\]"),
        (([5, 3],), {"size": 10, "heads": 4}, "size=10 cannot be shared by heads=4"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(make, shapes, settings, complaint):
    with pytest.raises(Misfit, match=complaint):
        make("attention", *shapes, **settings)
