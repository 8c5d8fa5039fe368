import pytest
import torch

from palaestra.policies.components.base import Steps


@pytest.mark.parametrize(("kind", "parts"), [("lstm", ["hidden", "cell"]), ("gru", ["hidden"]), ("mingru", ["hidden"])])
def test_rows_are_sequences_and_memory_is_called_by_the_nodes_name(make, kind, parts):
    torch.manual_seed(0)
    node = make(kind, [3], size=5)
    node.name_memory("brain")
    assert node.memory_shapes == {f"brain.{part}": (5,) for part in parts}
    memory = {f"brain.{part}": torch.randn(2, 5) for part in parts}
    rows = torch.randn(4 * 2, 3)
    starts = torch.zeros(4, 2, dtype=torch.bool)
    steps = Steps(4, 2, {**memory, "others.hidden": torch.zeros(2, 1)}, starts)
    output = node(rows, steps)
    expected, after = node.cell(rows.view(4, 2, 3), tuple(memory.values()), starts)
    assert torch.equal(output, expected.reshape(8, 5))
    assert set(steps.next_memory) == set(memory)
    assert all(torch.equal(steps.next_memory[f"brain.{part}"], now) for part, now in zip(parts, after, strict=True))
