import pytest
import torch

from palaestra.policies.memory.scan import by_doubling, scan, step_by_step


def example(time_count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    keep = torch.rand(time_count, 3, generator=generator, dtype=torch.float64)
    keep[torch.rand(keep.shape, generator=generator) < 0.3] = 0.0  # resets
    add = torch.randn(time_count, 3, generator=generator, dtype=torch.float64)
    return keep, add, torch.randn(3, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("time_count", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("way", [step_by_step, by_doubling, scan])
def test_each_way_gives_the_sums_written_out(way, time_count):
    keep, add, first = example(time_count)
    states = way(keep, add, first)
    for step in range(time_count):
        # h[t] = sum over s of add[s] times everything kept since, and the first state likewise
        expected = first * keep[: step + 1].prod(dim=0)
        for before in range(step + 1):
            expected = expected + add[before] * keep[before + 1 : step + 1].prod(dim=0)
        torch.testing.assert_close(states[step], expected)


def test_the_gradient_is_that_of_small_differences():
    inputs = [part.requires_grad_() for part in example(6)]
    assert torch.autograd.gradcheck(scan, inputs)
