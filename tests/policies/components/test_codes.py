from __future__ import annotations

import pytest
import torch

from palaestra.core.spaces import BoxSpec
from palaestra.policies.components import codes as module
from palaestra.policies.components.base import Misfit, Signal
from palaestra.policies.components.codes import by_torch, code_sums

CELLS = BoxSpec((2, 3), "uint8", (0.0,), (4.0,))


def raw(space):
    return Signal("observation", space.shape, space)


def test_it_is_a_linear_layer_on_one_hot_cells(make):
    codes = make("codes", raw(CELLS), size=7)
    rows = torch.randint(0, 5, (9, 2, 3), dtype=torch.uint8)
    one_hot = torch.nn.functional.one_hot(rows.long(), 5)[..., 1:].flatten(1).float()  # code 0 adds nothing
    expected = one_hot @ codes.table.view(-1, 7) + codes.bias
    torch.testing.assert_close(codes(rows), expected)
    assert codes.output.shape == (7,)


def test_codes_above_the_most_count_as_the_most(make):
    codes = make("codes", raw(BoxSpec((3,), "uint8", (0.0,), (255.0,))), size=4, most=5)
    assert codes.table.shape == (3, 5, 4)
    high, clipped = torch.tensor([[200, 0, 6]]).byte(), torch.tensor([[5, 0, 5]]).byte()
    torch.testing.assert_close(codes(high), codes(clipped))


@pytest.mark.parametrize("space", [BoxSpec((4,)), BoxSpec((), "uint8", (0.0,), (3.0,))])
def test_what_are_no_codes_is_refused(make, space):
    with pytest.raises(Misfit, match="needs bytes that are codes"):
        make("codes", raw(space), size=4)


native_ops = pytest.importorskip("palaestra.policies.native_ops", reason="built without a C++ compiler")


def written_out(codes, table):
    rows = []
    for row in codes.tolist():
        total = torch.zeros(table.shape[2], dtype=table.dtype)
        for cell, code in enumerate(row):
            if code:
                total = total + table[cell, code - 1]
        rows.append(total)
    return torch.stack(rows)


@pytest.mark.parametrize("sums", [code_sums, by_torch])
def test_sums_and_slopes_are_those_of_the_definition(sums):
    torch.manual_seed(3)
    codes = torch.randint(0, 6, (13, 8), dtype=torch.uint8)
    table = torch.randn(8, 5, 19, requires_grad=True)
    weights = torch.randn(13, 19)
    ours = sums(codes, table)
    (grad,) = torch.autograd.grad((ours * weights).sum(), table)
    expected = written_out(codes, table)
    (expected_slope,) = torch.autograd.grad((expected * weights).sum(), table)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(grad, expected_slope)


@pytest.mark.parametrize("sums", [code_sums, by_torch])
def test_a_row_of_nothing_is_zero(sums):
    table = torch.randn(4, 3, 5)
    assert sums(torch.zeros(2, 4, dtype=torch.uint8), table).eq(0).all()


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    torch.manual_seed(4)
    codes = torch.randint(0, 6, (700, 8), dtype=torch.uint8)
    table = torch.randn(8, 5, 19, requires_grad=True)
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(module, "_threads", lambda _codes, threads=threads: threads)
        sums = code_sums(codes, table)
        (grad,) = torch.autograd.grad(sums.square().sum(), table)
        results.append((sums, grad))
    for sums, grad in results[1:]:
        assert torch.equal(sums, results[0][0])
        assert torch.equal(grad, results[0][1])


def test_without_the_kernel_torch_serves(monkeypatch):
    codes, table = torch.tensor([[1, 0, 2]], dtype=torch.uint8), torch.randn(3, 2, 4)
    ours = code_sums(codes, table)
    monkeypatch.setattr(module, "native_ops", None)
    torch.testing.assert_close(code_sums(codes, table), ours)


def test_a_code_beyond_the_table_is_refused():
    with pytest.raises(ValueError, match="code 3 has no entry in a table of 2"):
        code_sums(torch.tensor([[3]], dtype=torch.uint8), torch.randn(1, 2, 4))


def test_shapes_that_do_not_go_together_are_refused_with_the_numbers():
    with pytest.raises(ValueError, match=r"codes \[1, 2\], a table \[1, 2, 4\]"):
        code_sums(torch.tensor([[1, 1]], dtype=torch.uint8), torch.randn(1, 2, 4))
