import pytest
import torch
from torch.nn import functional

from palaestra.policies.activations import unchanged
from palaestra.training.engines.codes import NO_BIAS, ActivationCode, Unfit
from palaestra.training.engines.module_plan import NetworkPlan, Target


def test_a_layer_on_vectors_side_by_side_is_one_for_each_with_its_own_columns():
    flat = torch.zeros(40)
    plan = NetworkPlan(sizes=[3, 2, 4], flat=flat)
    weight, bias = flat[1:28].view(3, 9), flat[30:33]
    slot = plan.add((1, 0, 2), weight, bias, torch.relu)
    assert plan.sizes[slot] == 3
    assert plan.layers == [
        (1, slot, 2, 3, 1, 9, 30, ActivationCode.RELU),
        (0, slot, 3, 3, 3, 9, NO_BIAS, ActivationCode.RELU),
        (2, slot, 4, 3, 6, 9, NO_BIAS, ActivationCode.RELU),
    ]
    assert plan.covered == 30


def test_an_activation_that_the_kernels_do_not_have_is_named():
    assert Target(1, unchanged).code == ActivationCode.NONE
    with pytest.raises(Unfit, match="the activation elu"):
        assert Target(1, functional.elu).code


def test_a_parameter_elsewhere_is_a_mistake():
    plan = NetworkPlan(sizes=[3], flat=torch.zeros(4))
    with pytest.raises(AssertionError, match="view of the flat block"):
        plan.place(torch.zeros(2))
