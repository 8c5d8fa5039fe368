"""The native engine's forward and backward passes, beside torch's in double precision."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from palaestra.training.engines import native_engine
from palaestra.training.engines.network_plan import Activation, LayerPlan, NetworkPlan

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="the native engine is not compiled")
KERNELS = [] if native_engine.native_learner is None else native_engine.native_learner.kernel_names()
WIDTHS = (1, 3, 7, 84, 120, 257)

FUNCTIONS = {
    Activation.NONE: lambda x: x,
    Activation.TANH: torch.tanh,
    Activation.RELU: torch.relu,
    Activation.GELU: functional.gelu,
}


def evaluate_plan(plan: NetworkPlan, parameters: Tensor, inputs: Tensor) -> dict[int, Tensor]:
    """The activations of all slots, [rows, size] each."""
    slots = {0: inputs}
    sums: dict[int, Tensor] = {}
    for number, layer in enumerate(plan.layers):
        term = _term(layer, parameters, slots[layer.source])
        sums[layer.target] = sums[layer.target] + term if layer.target in sums else term
        if all(later.target != layer.target for later in plan.layers[number + 1 :]):
            slots[layer.target] = FUNCTIONS[layer.activation](sums[layer.target])
    return slots


def _term(layer: LayerPlan, parameters: Tensor, source: Tensor) -> Tensor:
    shape, stride = (layer.outputs, layer.inputs), (layer.weight_row_stride, 1)
    term = source @ parameters.as_strided(shape, stride, layer.weight_offset).T
    return term if layer.bias_offset is None else term + part(parameters, layer.bias_offset, layer.outputs)


def part(parameters: Tensor, offset: int, size: int) -> Tensor:
    return parameters[offset : offset + size]


class PlanWriter:
    """Writes the plan of a network, with parameters one behind the other."""

    def __init__(self, inputs: int) -> None:
        self.plan = NetworkPlan([inputs])
        self.parameter_count = 0

    def slot(self, size: int) -> int:
        self.plan.slot_sizes.append(size)
        return len(self.plan.slot_sizes) - 1

    def layer(self, source: int, outputs: int, activation: Activation = Activation.NONE) -> int:
        return self.add(source, self.slot(outputs), activation)

    def add(self, source: int, target: int, activation: Activation = Activation.NONE) -> int:
        """Add a linear layer to a target, and return the target."""
        inputs, outputs = self.plan.slot_sizes[source], self.plan.slot_sizes[target]
        weight = self.parameters(inputs * outputs)
        layer = LayerPlan(
            source=source,
            target=target,
            inputs=inputs,
            outputs=outputs,
            weight_offset=weight,
            weight_row_stride=inputs,
            bias_offset=self.parameters(outputs),
            activation=activation,
        )
        self.plan.layers.append(layer)
        return target

    def parameters(self, count: int) -> int:
        offset = self.parameter_count
        self.parameter_count += count
        return offset


def critic(inputs: int, hidden: int, activation: Activation = Activation.RELU) -> PlanWriter:
    writer = PlanWriter(inputs)
    first = writer.layer(0, hidden, activation)
    writer.plan.value_slot = writer.layer(writer.layer(first, hidden, activation), 1)
    return writer


def q_network(inputs: int, hidden: int, actions: int, activation: Activation = Activation.RELU) -> PlanWriter:
    writer = PlanWriter(inputs)
    writer.plan.action_slot = writer.layer(writer.layer(0, hidden, activation), actions)
    return writer


def outputs_of(plan: NetworkPlan) -> list[int]:
    return [slot for slot in (plan.action_slot, plan.value_slot) if slot is not None]


class Pass:
    """One forward and backward pass by the engine, and the same by torch, for a random linear loss of the outputs."""

    def __init__(self, writer: PlanWriter, rows: int, kernels: str, columns=None, with_gradient=True, seed=0) -> None:
        plan, rng = writer.plan, np.random.default_rng(seed)
        self.columns = columns or (0, plan.slot_sizes[0])
        parameters = (0.5 * rng.standard_normal(writer.parameter_count)).astype(np.float32)
        inputs = rng.standard_normal((rows, plan.slot_sizes[0])).astype(np.float32)
        grads = {
            slot: rng.standard_normal((rows, plan.slot_sizes[slot])).astype(np.float32) for slot in outputs_of(plan)
        }
        self.native = self._by_native(plan, parameters, inputs, grads, kernels, with_gradient)
        self.torch = self._by_torch(plan, parameters, inputs, grads)

    def _by_native(self, plan, parameters, inputs, grads, kernels, with_gradient):
        native = native_engine.native_learner.NetworkPass(
            plan, parameters.size, len(inputs) + 1, input_gradients=True, kernels=kernels
        )
        native.forward(parameters, inputs)
        outputs = {slot: np.empty_like(grad) for slot, grad in grads.items()}
        for slot, grad in grads.items():
            native.read_slot(slot, outputs[slot])
            native.write_grads(slot, grad)
        gradient = np.zeros_like(parameters) if with_gradient else None
        native.backward(parameters, self.columns, gradient)
        input_grads = np.empty_like(inputs)
        native.read_input_grads(input_grads)
        return {"input": input_grads[:, slice(*self.columns)], "gradient": gradient, **outputs}

    def _by_torch(self, plan, parameters, inputs, grads):
        flat, rows = (torch.from_numpy(array).double().requires_grad_() for array in (parameters, inputs))
        slots = evaluate_plan(plan, flat, rows)
        loss = sum((slots[slot] * torch.from_numpy(grad)).sum() for slot, grad in grads.items())
        gradient, input_grads = torch.autograd.grad(loss, (flat, rows))
        outputs = {slot: slots[slot].detach().numpy() for slot in grads}
        return {"input": input_grads.numpy()[:, slice(*self.columns)], "gradient": gradient.numpy(), **outputs}

    def assert_equal(self):
        for name, ours in self.native.items():
            theirs = self.torch[name]
            if ours is not None and theirs.size:
                assert np.abs(ours - theirs).max() <= 2e-6 * max(1.0, np.abs(theirs).max()), name


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("activation", Activation)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_critic_has_a_value_and_gradients_by_parameters_and_input(width, activation, kernels):
    Pass(critic(width, width, activation), 5, kernels).assert_equal()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("actions", [1, 2, 4, 5, 18])
def test_a_network_with_actions_only_has_gradients_by_parameters_and_input(actions, kernels):
    Pass(q_network(7, 33, actions), 13, kernels).assert_equal()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("rows", [0, 1, 6, 64, 65, 130])
def test_any_number_of_rows_passes_through(rows, kernels):
    Pass(critic(23, 40), rows, kernels).assert_equal()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("columns", [(0, 1), (17, 23), (3, 40), (39, 40)])
def test_only_the_columns_asked_for_have_input_gradients(columns, kernels):
    Pass(critic(40, 20), 9, kernels, columns).assert_equal()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("activation", Activation)
def test_input_gradients_need_no_gradient_by_the_parameters(activation, kernels):
    Pass(critic(23, 40, activation), 70, kernels, (17, 23), with_gradient=False).assert_equal()


@pytest.mark.parametrize("kernels", KERNELS)
def test_several_layers_that_read_the_input_add_up_their_input_gradients(kernels):
    writer = PlanWriter(9)
    writer.plan.action_slot = writer.layer(writer.layer(0, 21, Activation.TANH), 3)
    writer.plan.value_slot = writer.layer(0, 1)
    Pass(writer, 11, kernels).assert_equal()


def test_input_gradients_equal_finite_differences():
    writer, rng = critic(6, 16, Activation.TANH), np.random.default_rng(3)
    parameters = (0.5 * rng.standard_normal(writer.parameter_count)).astype(np.float32)
    inputs, shifts = rng.standard_normal((1, 6)).astype(np.float32), np.float32(0.01) * np.eye(6, dtype=np.float32)
    native = native_engine.native_learner.NetworkPass(writer.plan, parameters.size, 6, input_gradients=True)

    def values(rows):
        out = np.empty((6, 1), np.float32)
        native.forward(parameters, rows)
        native.read_slot(writer.plan.value_slot, out)
        return out[:, 0].astype(float)

    differences = (values(inputs + shifts) - values(inputs - shifts)) / 0.02
    native.forward(parameters, inputs)
    native.write_grads(writer.plan.value_slot, np.ones((1, 1), np.float32))
    native.backward(parameters, (0, 6), None)
    grads = np.empty((1, 6), np.float32)
    native.read_input_grads(grads)
    assert grads[0] == pytest.approx(differences, abs=2e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value_slot": None}, "action_slot and value_slot are both missing"),
        ({"value_slot": 7}, "value_slot 7 must be a slot that layers write"),
        ({"action_slot": 0}, "action_slot 0 must be a slot that layers write"),
        ({"action_slot": 3}, "must be two different slots"),
    ],
)
def test_a_plan_with_invalid_outputs_is_refused(change, message):
    writer = critic(4, 8)
    with pytest.raises(ValueError, match=message):
        native_engine.native_learner.NetworkPass(replace(writer.plan, **change), writer.parameter_count, 1)


def test_input_columns_beyond_the_input_are_refused():
    writer = critic(4, 8)
    parameters = np.zeros(writer.parameter_count, np.float32)
    for has_gradients, columns in ((True, (0, 5)), (True, (-1, 2)), (False, (0, 4))):
        native = native_engine.native_learner.NetworkPass(
            writer.plan, parameters.size, 1, input_gradients=has_gradients
        )
        with pytest.raises(ValueError, match=r"input_columns \(.*\) must be within the 4 inputs"):
            native.backward(parameters, columns, None)
