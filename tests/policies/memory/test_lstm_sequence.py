import torch
from torch import nn

from palaestra.policies.memory.lstm_sequence import lstm_sequence


def example(time_count=6, batch_count=3, inputs=4, size=5, seed=0):
    torch.manual_seed(seed)
    sequence = torch.randn(time_count, batch_count, inputs, dtype=torch.float64)
    state = [torch.randn(batch_count, size, dtype=torch.float64) for _ in range(2)]
    return sequence, state, torch.rand(time_count, batch_count) < 0.4


def run_torchs_own(module, sequence, state, starts):
    outputs = []
    for step in range(sequence.shape[0]):
        kept = [part.masked_fill(starts[step].unsqueeze(-1), 0.0) for part in state]
        state = module(sequence[step], kept)
        outputs.append(state[0])
    return torch.stack(outputs), state[1]


def test_outputs_and_every_gradient_are_those_of_torchs_own_cell_step_by_step():
    sequence, state, starts = example()
    assert starts[0].any()
    assert starts[1:].any()
    module = nn.LSTMCell(4, 5, dtype=torch.float64)
    leaves = [sequence.requires_grad_(), *(part.requires_grad_() for part in state), *module.parameters()]

    def ours():
        projected = sequence @ module.weight_ih.T + module.bias_ih + module.bias_hh
        return lstm_sequence(projected, module.weight_hh, *state, starts)

    results = [ours(), run_torchs_own(module, sequence, state, starts)]
    gradients = [torch.autograd.grad((outputs.cos().sum() + cell.square().sum()), leaves) for outputs, cell in results]
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(gradients[0], gradients[1])


def test_without_resets_it_is_the_fused_kernel():
    sequence, (hidden, cell), _ = example()
    module = nn.LSTM(4, 5, dtype=torch.float64)
    projected = sequence @ module.weight_ih_l0.T + module.bias_ih_l0 + module.bias_hh_l0
    none = torch.zeros(6, 3, dtype=torch.bool)
    outputs, last = lstm_sequence(projected, module.weight_hh_l0, hidden, cell, none)
    expected, (_, expected_last) = module(sequence, (hidden[None], cell[None]))
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(last, expected_last[0])
