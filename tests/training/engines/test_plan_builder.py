import pytest
import torch
from torch import nn
from torch.nn import functional

from palaestra.policies.activations import unchanged
from palaestra.policies.memory.fused import GruCell, LstmCell
from palaestra.policies.memory.mingru import MinGruCell
from palaestra.training.engines.network_plan import Activation, CellKind, LayerPlan, NormPlan, Unsupported
from palaestra.training.engines.plan_builder import PlanBuilder, Target, cell_parameters


def test_a_layer_on_a_concatenation_is_one_layer_for_each_source_with_its_own_columns():
    flat = torch.zeros(40)
    builder = PlanBuilder(3, flat)
    assert [builder.new_slot(2), builder.new_slot(4)] == [1, 2]
    layer = nn.Linear(9, 3)
    layer.weight.data, layer.bias.data = flat[1:28].view(3, 9), flat[30:33]
    slot = builder.add_layer((1, 0, 2), layer, torch.relu)
    assert builder.plan.slot_sizes[slot] == 3
    common = {"target": slot, "outputs": 3, "weight_row_stride": 9, "activation": Activation.RELU}
    assert builder.plan.layers == [
        LayerPlan(source=1, inputs=2, weight_offset=1, bias_offset=30, **common),
        LayerPlan(source=0, inputs=3, weight_offset=3, bias_offset=None, **common),
        LayerPlan(source=2, inputs=4, weight_offset=6, bias_offset=None, **common),
    ]
    assert builder.used_parameters == 30


def test_a_norm_and_a_sum_of_slots_are_described():
    flat = torch.zeros(40)
    builder = PlanBuilder(3, flat)
    norm = nn.LayerNorm(3, eps=1e-3)
    norm.weight.data, norm.bias.data = flat[4:7], flat[7:10]
    total = builder.add_sum(0, builder.new_slot(3))
    builder.add_norm(total, norm)
    assert [(layer.source, layer.target, layer.weight_offset) for layer in builder.plan.layers] == [
        (0, total, None),
        (1, total, None),
    ]
    assert builder.plan.norms == [NormPlan(target=total, size=3, weight_offset=4, bias_offset=7, epsilon=1e-3)]
    assert builder.used_parameters == 6


def test_an_activation_that_the_kernels_do_not_have_is_named():
    assert Target(1, unchanged).activation is Activation.NONE
    with pytest.raises(Unsupported, match="the activation elu"):
        assert Target(1, functional.elu).activation


def test_a_parameter_outside_the_flat_array_is_a_mistake():
    with pytest.raises(AssertionError, match="view of the flat array"):
        PlanBuilder(3, torch.zeros(4)).offset_of(torch.zeros(2))


@pytest.mark.parametrize(
    ("cell", "kind", "rows"),
    [(MinGruCell(4, 3), CellKind.MINGRU, 6), (LstmCell(4, 3), CellKind.LSTM, 12), (GruCell(4, 3), CellKind.GRU, 9)],
)
def test_each_kind_of_cell_is_recognised(cell, kind, rows):
    parameters = cell_parameters(cell)
    assert (parameters.kind, parameters.size, tuple(parameters.weight.shape)) == (kind, 3, (rows, 4))
    assert (parameters.recurrent is None) is (kind is CellKind.MINGRU)


class OwnCell(LstmCell):
    """Could do anything in its forward."""


def test_a_subclass_of_a_cell_is_not_taken_for_its_parent():
    assert cell_parameters(OwnCell(4, 3)) is None
