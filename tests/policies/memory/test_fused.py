import pytest
import torch
from torch import nn

from palaestra.policies.memory.fused import FusedCell, GruCell, LstmCell


@pytest.mark.parametrize(("ours", "theirs"), [(LstmCell, nn.LSTM), (GruCell, nn.GRU)])
def test_weights_can_be_exchanged_with_torchs_own_modules(ours, theirs):
    torch.manual_seed(0)
    cell, module = ours(3, 5), theirs(3, 5)
    cell.load_state_dict(module.state_dict())
    sequence = torch.randn(6, 2, 3)
    zeros = tuple(torch.zeros(2, 5) for _ in cell.parts)
    torch.testing.assert_close(cell(sequence, zeros)[0], module(sequence)[0])
    torch.testing.assert_close(cell(sequence[:1], zeros)[0], module(sequence[:1])[0])


@pytest.mark.parametrize("kind", [LstmCell, GruCell])
def test_weights_begin_orthogonal_and_biases_zero(kind):
    cell = kind(4, 4)
    for weight in (cell.weight_ih_l0, cell.weight_hh_l0):  # more rows than columns: columns are orthonormal
        torch.testing.assert_close(weight.T @ weight, torch.eye(4), atol=1e-5, rtol=0)
    assert not cell.bias_ih_l0.any()
    assert not cell.bias_hh_l0.any()


def test_the_packed_way_of_other_devices_gives_what_the_cpus_own_way_gives():
    torch.manual_seed(0)
    cell = LstmCell(3, 5)
    sequence, memory = torch.randn(7, 4, 3), (torch.randn(4, 5), torch.randn(4, 5))
    starts = torch.rand(7, 4) < 0.3
    torch.testing.assert_close(FusedCell._broken(cell, sequence, memory, starts), cell(sequence, memory, starts))
