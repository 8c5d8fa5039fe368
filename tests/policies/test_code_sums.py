import torch

from palaestra.policies.code_sums import code_sums


def written_out(codes, table):
    rows = []
    for row in codes.tolist():
        total = torch.zeros(table.shape[2], dtype=table.dtype)
        for cell, code in enumerate(row):
            if code:
                total = total + table[cell, code - 1]
        rows.append(total)
    return torch.stack(rows)


def test_sums_and_slopes_are_those_of_the_definition():
    torch.manual_seed(3)
    codes = torch.randint(0, 6, (13, 8), dtype=torch.uint8)
    table = torch.randn(8, 5, 19, requires_grad=True)
    weights = torch.randn(13, 19)
    ours = code_sums(codes, table)
    (slope,) = torch.autograd.grad((ours * weights).sum(), table)
    expected = written_out(codes, table)
    (expected_slope,) = torch.autograd.grad((expected * weights).sum(), table)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(slope, expected_slope)


def test_a_row_of_nothing_is_zero():
    table = torch.randn(4, 3, 5)
    assert code_sums(torch.zeros(2, 4, dtype=torch.uint8), table).eq(0).all()
