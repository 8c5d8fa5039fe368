from typing import get_args

import torch

from palaestra.policies.activations import ACTIVATIONS, ActivationName


def test_every_name_has_a_function_that_keeps_shapes():
    assert set(ACTIVATIONS) == set(get_args(ActivationName))
    rows = torch.linspace(-2, 2, 6).view(2, 3)
    assert all(function(rows).shape == (2, 3) for function in ACTIVATIONS.values())
    assert torch.equal(ACTIVATIONS["none"](rows), rows)
    assert ACTIVATIONS["relu"](rows).min() == 0
