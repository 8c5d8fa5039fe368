import pytest
import torch

from palaestra.policies.components.base import Misfit


def test_flattening_keeps_the_order(make):
    flat = make("flatten", [2, 3])
    assert flat(torch.arange(12.0).view(2, 2, 3))[1].tolist() == [6, 7, 8, 9, 10, 11]
    assert flat.output.shape == (6,)


def test_an_activation_alone(make):
    assert make("activation", [2], function="relu")(torch.tensor([[-1.0, 2.0]])).tolist() == [[0.0, 2.0]]


@pytest.mark.parametrize(("axes", "dims"), [("last", (-1,)), ("all", (-2, -1))])
def test_normalised_rows_have_mean_zero_and_deviation_one(make, axes, dims):
    rows = make("norm", [3, 50], axes=axes)(5 + 3 * torch.randn(2, 3, 50))
    torch.testing.assert_close(rows.mean(dims), torch.zeros_like(rows.mean(dims)), atol=1e-5, rtol=0)
    torch.testing.assert_close(rows.var(dims, correction=0), torch.ones_like(rows.mean(dims)), atol=1e-3, rtol=0)


def test_one_number_cannot_be_normalised(make):
    with pytest.raises(Misfit, match="no spread"):
        make("norm", [1])


def test_the_three_ways_to_merge(make):
    first, second = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 5.0]])
    results = {how: make("merge", [2], [2], how=how)(first, second).tolist() for how in ("concat", "add", "mean")}
    assert results == {"concat": [[1, 2, 3, 5]], "add": [[4, 7]], "mean": [[2, 3.5]]}


def test_three_can_be_merged_and_pictures_by_their_channels(make):
    assert make("merge", [2], [2], [2], how="mean")(*torch.ones(3, 1, 2)).tolist() == [[1, 1]]
    assert make("merge", [2, 5, 5], [3, 5, 5]).output.shape == (5, 5, 5)


@pytest.mark.parametrize(
    ("how", "shapes", "complaint"),
    [
        ("add", ([64], [32]), r"cannot add 'a' \[64\] and 'b' \[32\]"),
        ("mean", ([4], [4, 1]), r"cannot average 'a' \[4\] and 'b' \[4, 1\]"),
        ("concat", ([2, 5, 5], [2, 6, 5]), r"cannot put 'a' \[2, 5, 5\] and 'b' \[2, 6, 5\] side by side"),
    ],
)
def test_what_cannot_be_merged_is_refused_with_names_and_shapes(make, how, shapes, complaint):
    with pytest.raises(Misfit, match=complaint):
        make("merge", *shapes, how=how)
