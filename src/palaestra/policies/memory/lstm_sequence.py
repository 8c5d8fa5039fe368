"""An LSTM over a sequence with resets inside, its gradient written out; for the CPU.

Torch's fused kernel knows no resets, and its packed form runs one small kernel after another and sums the gradient of
the weights at every step. Here what does not hang on the step before is done for all steps at once: the input's
products before the loop, the gradients of the gates and the weights' gradient as one product each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def lstm_sequence(
    projected: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor, starts: Tensor
) -> tuple[Tensor, Tensor]:
    """Outputs [T, B, size] and the cell [B, size] after the last step.

    `projected` [T, B, 4 * size]: the input's share of the gates, biases included; `weight` [4 * size, size]: the hidden
    state's share, rows in torch's order (in, forget, new, out); `starts` [T, B] bool.
    """
    outputs, last_cell = _LstmSequence.apply(projected, weight, hidden, cell, starts)  # type: ignore[no-untyped-call]
    return outputs, last_cell


class _LstmSequence(Function):
    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor, starts: Tensor
    ) -> tuple[Tensor, Tensor]:
        time_count, batch_count, _ = projected.shape
        size = weight.shape[1]
        resets = starts.any(dim=1).tolist()
        keep = (~starts).to(projected.dtype).unsqueeze(-1)  # [T, B, 1]
        gates = torch.empty_like(projected)  # activated
        outputs = projected.new_empty(time_count, batch_count, size)
        before = torch.empty_like(outputs)  # hidden state that each step starts from
        cell_before, squashed = torch.empty_like(outputs), torch.empty_like(outputs)
        across = weight.t()
        inputs, gate_rows, output_rows, squashed_rows = (
            block.unbind() for block in (projected, gates, outputs, squashed)
        )
        for step in range(time_count):
            if resets[step]:
                hidden, cell = hidden * keep[step], cell * keep[step]
            before[step], cell_before[step] = hidden, cell
            gate = torch.addmm(inputs[step], hidden, across, out=gate_rows[step])
            both, new, leave = torch.split(gate, [2 * size, size, size], dim=1)
            enter, stay = both.sigmoid_().chunk(2, dim=1)
            cell = torch.addcmul(stay * cell, enter, new.tanh_())
            hidden = torch.mul(leave.sigmoid_(), torch.tanh(cell, out=squashed_rows[step]), out=output_rows[step])
        ctx.save_for_backward(gates, before, cell_before, squashed, weight, keep)
        ctx.resets = resets
        return outputs, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_grads: Tensor, cell_gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        gates, before, cell_before, squashed, weight, keep = ctx.saved_tensors
        time_count, batch_count, size = before.shape
        by_cell, by_output, to_cell = _factors(gates, cell_before, squashed)
        stays = gates[:, :, size : 2 * size]
        gradients = torch.empty_like(gates)  # with respect to the gates before their activation
        quarters = gradients.view(time_count, batch_count, 4, size)
        hidden_gradient = torch.zeros_like(before[0])
        for step in reversed(range(time_count)):
            hidden_gradient = hidden_gradient + output_grads[step]
            cell_gradient = torch.addcmul(cell_gradient, hidden_gradient, to_cell[step])
            torch.mul(by_cell[step], cell_gradient.unsqueeze(1), out=quarters[step, :, :3])
            torch.mul(by_output[step], hidden_gradient, out=quarters[step, :, 3])
            hidden_gradient = gradients[step] @ weight
            cell_gradient = cell_gradient * stays[step]
            if ctx.resets[step]:
                hidden_gradient, cell_gradient = hidden_gradient * keep[step], cell_gradient * keep[step]
        weight_gradient = gradients.flatten(0, 1).t() @ before.flatten(0, 1)
        return gradients, weight_gradient, hidden_gradient, cell_gradient, None


def _factors(gates: Tensor, cell_before: Tensor, squashed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of every step at once: d cell / d (in, forget, new) [T, B, 3, size]; d hidden / d out and d hidden / d cell."""
    time_count, batch_count, size = squashed.shape
    enter, stay, new, leave = gates.view(time_count, batch_count, 4, size).unbind(2)
    by_cell = torch.stack(
        [new * enter * (1 - enter), cell_before * stay * (1 - stay), enter * (1 - new.square())], dim=2
    )
    return by_cell, squashed * leave * (1 - leave), leave * (1 - squashed.square())
