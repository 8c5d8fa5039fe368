import pytest
import torch

from palaestra.algorithms.torch_dice import seeded_state


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31, 2**32 - 1, 2**32 + 7, 2**63 - 1])
def test_it_is_what_torch_says_after_that_seed(seed):
    theirs = torch.Generator().manual_seed(seed).get_state()
    assert seeded_state(seed).tolist() == theirs.tolist()


def test_a_generator_that_takes_it_draws_what_the_seed_draws():
    generator = torch.Generator().manual_seed(99)
    generator.set_state(torch.from_numpy(seeded_state(7)))
    expected = torch.Generator().manual_seed(7)
    assert torch.rand(700, generator=generator).tolist() == torch.rand(700, generator=expected).tolist()
    assert torch.randn(5, generator=generator).tolist() == torch.randn(5, generator=expected).tolist()
