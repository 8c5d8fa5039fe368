import pytest
import torch

from palaestra.policies.memory.cell import forget
from palaestra.policies.memory.fused import GruCell, LstmCell
from palaestra.policies.memory.mingru import MinGruCell


@pytest.fixture(params=[LstmCell, GruCell, MinGruCell])
def cell(request):
    torch.manual_seed(3)
    made = request.param(3, 2) if "gradients" in request.node.name else request.param(5, 6)
    for weights in made.parameters():
        torch.nn.init.normal_(weights, std=0.5)  # biases too, which begin at zero
    return made


def step_by_step(cell, sequence, memory, starts):
    """T calls with one step each; memory is wiped by hand where an episode begins."""
    outputs = []
    for step in range(sequence.shape[0]):
        if starts is not None:
            memory = tuple(torch.where(starts[step].unsqueeze(-1), torch.zeros_like(part), part) for part in memory)
        output, memory = cell(sequence[step : step + 1], memory)
        outputs.append(output)
    return torch.cat(outputs), memory


def example(cell, inputs=5, time_count=9, batch_count=4, seed=0, resets=0.3):
    generator = torch.Generator().manual_seed(seed)
    sequence = torch.randn(time_count, batch_count, inputs, generator=generator)
    memory = tuple(torch.randn(batch_count, cell.size, generator=generator) for _ in cell.parts)
    starts = torch.rand(time_count, batch_count, generator=generator) < resets
    return sequence, memory, starts


@pytest.mark.parametrize("resets", [0.0, 0.3, 1.0])
def test_a_sequence_equals_its_steps_whatever_resets_are_inside(cell, resets):
    sequence, memory, starts = example(cell, resets=resets)
    whole, after = cell(sequence, memory, starts)
    stepped, after_steps = step_by_step(cell, sequence, memory, starts)
    torch.testing.assert_close(whole, stepped, atol=1e-5, rtol=0)
    for part, other in zip(after, after_steps, strict=True):
        torch.testing.assert_close(part, other, atol=1e-5, rtol=0)


def test_what_was_before_a_reset_does_not_matter(cell):
    sequence, memory, starts = example(cell, resets=0.0)
    starts[4] = True
    whole, _ = cell(sequence, memory, starts)
    zeros = tuple(torch.zeros_like(part) for part in memory)
    alone, _ = cell(sequence[4:], zeros)
    torch.testing.assert_close(whole[4:], alone, atol=1e-5, rtol=0)
    changed, _ = cell(torch.cat([sequence[:4] + 1, sequence[4:]]), memory, starts)
    assert torch.equal(changed[4:], whole[4:])
    assert not torch.equal(changed[:4], whole[:4])


def test_gradients_are_right_through_resets(cell):
    """Against numbers: torch's gradcheck, in double, through resets, to input and first memory."""
    cell = cell.double()
    sequence, memory, starts = example(cell, inputs=3, time_count=5, batch_count=2, resets=0.4)
    assert starts[1:].any()

    def run(sequence, *memory):
        output, after = cell(sequence, memory, starts)
        return output, *after

    inputs = [part.double().requires_grad_() for part in (sequence, *memory)]
    assert torch.autograd.gradcheck(run, inputs)


def test_weights_learn_the_same_from_a_sequence_as_from_its_steps(cell):
    sequence, memory, starts = example(cell)
    gradients = []
    for run in (cell, lambda *given: step_by_step(cell, *given)):
        cell.zero_grad()
        run(sequence, memory, starts)[0].square().sum().backward()
        gradients.append([weights.grad.clone() for weights in cell.parameters()])
    for whole, stepped in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, stepped, atol=1e-4, rtol=1e-4)


def test_a_reset_at_the_first_step_alone_drops_the_memory_given(cell):
    sequence, memory, starts = example(cell, resets=0.0)
    starts[0, 1] = True
    output, _ = cell(sequence, memory, starts)
    zeros = tuple(torch.zeros_like(part) for part in memory)
    with_memory, without = cell(sequence, memory)[0], cell(sequence, zeros)[0]
    torch.testing.assert_close(output[:, 1], without[:, 1])
    torch.testing.assert_close(output[:, 0], with_memory[:, 0])
    assert not torch.allclose(with_memory[:, 1], without[:, 1])


def test_memory_is_zero_where_an_episode_begins_and_untouched_elsewhere():
    hidden, cell = torch.ones(3, 2), torch.full((3, 2), 5.0)
    after = forget((hidden, cell), torch.tensor([False, True, False]))
    assert [part[:, 0].tolist() for part in after] == [[1, 0, 1], [5, 0, 5]]


def test_a_cell_that_starts_remembering_still_holds_long_ago_after_sixty_quiet_steps():
    """How much of the first memory is left, for numbers of the scale that was asked for."""
    for kind in (LstmCell, GruCell, MinGruCell):
        left = {}
        for remember in (None, 200):
            torch.manual_seed(0)
            made = kind(3, 64)
            if remember is not None:
                made.start_remembering(remember)
            memory = tuple(torch.ones(1, 64) for _ in made.parts)
            _, after = made(torch.zeros(60, 1, 3), memory)
            _, without = made(torch.zeros(60, 1, 3), tuple(torch.zeros(1, 64) for _ in made.parts))
            left[remember] = float((after[-1] - without[-1]).detach().abs().mean())
        assert left[None] < 0.01, kind
        assert left[200] > 0.2, kind
