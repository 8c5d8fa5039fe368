import pytest
import torch

from palaestra.policies import code_sums as module
from palaestra.policies.code_sums import by_torch, code_sums

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
    (slope,) = torch.autograd.grad((ours * weights).sum(), table)
    expected = written_out(codes, table)
    (expected_slope,) = torch.autograd.grad((expected * weights).sum(), table)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(slope, expected_slope)


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
        (slope,) = torch.autograd.grad(sums.square().sum(), table)
        results.append((sums, slope))
    for sums, slope in results[1:]:
        assert torch.equal(sums, results[0][0])
        assert torch.equal(slope, results[0][1])


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
