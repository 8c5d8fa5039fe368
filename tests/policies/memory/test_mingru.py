import torch

from palaestra.policies.memory.mingru import MinGruCell


def test_the_state_is_the_mixture_that_the_definition_says():
    torch.manual_seed(0)
    cell = MinGruCell(3, 2)
    nn_weight, bias = cell.weight.detach(), torch.tensor([0.5, -1.0, 0.3, 0.1])
    cell.bias.data.copy_(bias)
    sequence, state = torch.randn(4, 1, 3), torch.randn(1, 2)
    output, (last,) = cell(sequence, (state,))
    for step in range(4):
        numbers = sequence[step, 0] @ nn_weight.T + bias
        share = 1 / (1 + (-numbers[:2]).exp())
        state = (1 - share) * state + share * numbers[2:]
        torch.testing.assert_close(output[step], state)
    assert torch.equal(last, output[-1])


def test_a_long_sequence_stays_finite():
    torch.manual_seed(0)
    cell = MinGruCell(3, 4)
    output, _ = cell(100 * torch.randn(2000, 1, 3), (torch.zeros(1, 4),))
    assert torch.isfinite(output).all()
