from __future__ import annotations

import math
from typing import get_args

import pytest
import torch

from palaestra.policies import activations as module
from palaestra.policies.activations import ACTIVATIONS, LARGE, ActivationName, tanh


def test_every_name_has_a_function_that_keeps_shapes():
    assert set(ACTIVATIONS) == set(get_args(ActivationName))
    rows = torch.linspace(-2, 2, 6).view(2, 3)
    assert all(function(rows).shape == (2, 3) for function in ACTIVATIONS.values())
    assert torch.equal(ACTIVATIONS["none"](rows), rows)
    assert ACTIVATIONS["relu"](rows).min() == 0


native_ops = pytest.importorskip("palaestra.policies.native_ops", reason="built without a C++ compiler")

ROUNDING = 2.0**-24  # of a number in single precision, relative


def spread_out(count):
    """From far below one to far beyond where tanh is one, of both signs."""
    sizes = torch.logspace(-12, 3, count // 2)
    return torch.cat([sizes, -sizes])


@pytest.mark.parametrize("count", [LARGE, 2 * LARGE])
def test_it_is_within_a_few_roundings_of_the_truth(count):
    numbers = spread_out(count)
    truth = torch.tanh(numbers.double())
    assert ((tanh(numbers).double() - truth) / truth).abs().max() < 8 * ROUNDING


def test_what_is_not_a_number_stays_so_and_infinities_are_one():
    numbers = torch.zeros(LARGE)
    numbers[:3] = torch.tensor([math.nan, math.inf, -math.inf])
    bent = tanh(numbers)
    assert bent[0].isnan()
    torch.testing.assert_close(bent[1:3], torch.tensor([1.0, -1.0]), rtol=4 * ROUNDING, atol=0)
    assert bent[3:].eq(0).all()


def test_slopes_are_those_of_the_definition():
    numbers = torch.linspace(-4, 4, LARGE).requires_grad_()
    weights = torch.linspace(0, 1, LARGE)
    (grad,) = torch.autograd.grad((tanh(numbers) * weights).sum(), numbers)
    written_out = weights / torch.cosh(numbers.detach().double()).square()
    torch.testing.assert_close(grad.double(), written_out, rtol=1e-4, atol=1e-6)


def test_shapes_stay():
    assert tanh(torch.zeros(128, LARGE // 128)).shape == (128, LARGE // 128)


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(torch.linspace(-2, 2, 100), id="few"),
        pytest.param(torch.linspace(-2, 2, LARGE, dtype=torch.float64), id="doubles"),
        pytest.param(torch.linspace(-2, 2, LARGE).view(128, -1).t(), id="turned"),
    ],
)
def test_what_is_not_for_our_loop_is_left_to_torch(numbers):
    assert torch.equal(tanh(numbers), torch.tanh(numbers))


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    numbers = torch.randn(6 * 1000 + LARGE)
    monkeypatch.setattr(module, "OWN_SHARE", 1000)
    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        results.append(tanh(numbers))
    assert all(torch.equal(one, results[0]) for one in results[1:])


def test_without_the_kernel_torch_serves(monkeypatch):
    numbers = torch.linspace(-3, 3, LARGE)
    monkeypatch.setattr(module, "native_ops", None)
    assert torch.equal(tanh(numbers), torch.tanh(numbers))


def test_numbers_that_do_not_fit_are_refused_with_both_counts():
    with pytest.raises(ValueError, match="out has 2 entries for 3 numbers"):
        native_ops.tanh(torch.zeros(3).numpy(), torch.zeros(2).numpy())
