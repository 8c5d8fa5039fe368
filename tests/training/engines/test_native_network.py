"""The native engine's forward and backward passes, beside torch's in double precision."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from palaestra.training.engines import native_engine
from palaestra.training.engines.network_plan import Activation, LayerPlan, NetworkPlan, NormPlan

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
    """A plan carried out with torch's functions: the activations of all slots, [rows, size] each."""
    slots = {0: inputs}
    norms = {norm.target: norm for norm in plan.norms}
    last = {layer.target: layer for layer in plan.layers}
    sums: dict[int, Tensor] = {}
    for layer in plan.layers:
        term = _term(layer, parameters, slots[layer.source])
        sums[layer.target] = sums[layer.target] + term if layer.target in sums else term
        if last[layer.target] is layer:
            normalized = _normalized(norms.get(layer.target), parameters, sums[layer.target])
            slots[layer.target] = FUNCTIONS[layer.activation](normalized)
    return slots


def _normalized(norm: NormPlan | None, parameters: Tensor, x: Tensor) -> Tensor:
    if norm is None:
        return x
    weight, bias = (part(parameters, offset, norm.size) for offset in (norm.weight_offset, norm.bias_offset))
    return functional.layer_norm(x, (norm.size,), weight, bias, norm.epsilon)


def _term(layer: LayerPlan, parameters: Tensor, source: Tensor) -> Tensor:
    term = source
    if layer.weight_offset is not None:
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

    def identity(self, source: int, target: int, activation: Activation = Activation.NONE) -> int:
        """Add a slot to a target of the same size, and return the target."""
        size = self.plan.slot_sizes[source]
        layer = LayerPlan(
            source=source,
            target=target,
            inputs=size,
            outputs=size,
            weight_offset=None,
            weight_row_stride=0,
            bias_offset=None,
            activation=activation,
        )
        self.plan.layers.append(layer)
        return target

    def norm(self, target: int, epsilon: float = 1e-5) -> int:
        size = self.plan.slot_sizes[target]
        weight, bias = self.parameters(size), self.parameters(size)
        norm = NormPlan(target=target, size=size, weight_offset=weight, bias_offset=bias, epsilon=epsilon)
        self.plan.norms.append(norm)
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


def residual_network(width: int, activation: Activation, has_norms: bool) -> PlanWriter:
    """x + activation(norm(W x + b)) twice, as the graph `mlp` has it with layer_norm and residual."""
    writer = PlanWriter(5)

    def layer(source: int) -> int:
        target = writer.layer(source, width, activation)
        return writer.norm(target) if has_norms else target

    slot = layer(0)
    for _ in range(2):
        slot = writer.identity(slot, writer.identity(layer(slot), writer.slot(width)))
    writer.plan.action_slot = writer.layer(slot, 6)
    writer.plan.value_slot = writer.layer(slot, 1)
    return writer


def pre_norm_network(width: int, inside: int, activation: Activation) -> PlanWriter:
    """x + W' activation(W norm(x)), as the component `residual` has it."""
    writer = PlanWriter(width)
    slot = 0
    for _ in range(2):
        normalized = writer.norm(writer.identity(slot, writer.slot(width)))
        widened = writer.layer(normalized, inside, activation)
        slot = writer.add(widened, writer.identity(slot, writer.slot(width)))
    writer.plan.value_slot = writer.layer(slot, 1)
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
        self.truth = self._by_torch(plan, parameters, inputs, grads, torch.double)
        self.torch = self._by_torch(plan, parameters, inputs, grads, torch.float)

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

    def _by_torch(self, plan, parameters, inputs, grads, dtype):
        flat, rows = (torch.from_numpy(array).to(dtype).requires_grad_() for array in (parameters, inputs))
        slots = evaluate_plan(plan, flat, rows)
        loss = sum((slots[slot] * torch.from_numpy(grad)).sum() for slot, grad in grads.items())
        gradient, input_grads = torch.autograd.grad(loss, (flat, rows))
        outputs = {slot: slots[slot].detach().numpy() for slot in grads}
        return {"input": input_grads.numpy()[:, slice(*self.columns)], "gradient": gradient.numpy(), **outputs}

    def assert_equal(self):
        """Equal to the truth within rounding, or as close to it as torch is in single precision."""
        for name, truth in self.truth.items():
            if self.native[name] is not None and truth.size:
                ours, theirs = (np.abs(result[name] - truth).max() for result in (self.native, self.torch))
                assert ours <= 5 * theirs + 5e-6 * max(1.0, np.abs(truth).max()), name


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
@pytest.mark.parametrize("activation", Activation)
def test_a_row_has_the_same_bits_alone_and_among_others(activation, kernels):
    writer, rng = residual_network(33, activation, has_norms=True), np.random.default_rng(1)
    parameters = rng.standard_normal(writer.parameter_count).astype(np.float32)
    inputs = rng.standard_normal((11, 5)).astype(np.float32)
    native = native_engine.native_learner.NetworkPass(writer.plan, parameters.size, 11, kernels=kernels)

    def outputs(rows):
        out = np.empty((len(rows), 6), np.float32)
        native.forward(parameters, rows)
        native.read_slot(writer.plan.action_slot, out)
        return out

    alone = np.concatenate([outputs(row[None]) for row in inputs])
    assert alone.tobytes() == outputs(inputs).tobytes()


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


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("activation", Activation)
@pytest.mark.parametrize("width", [2, 3, 7, 84, 120, 257])
def test_layer_normalisation_stands_between_a_layer_and_its_activation(width, activation, kernels):
    writer = PlanWriter(4)
    slot = writer.norm(writer.layer(0, width, activation))
    slot = writer.norm(writer.layer(slot, width, activation))
    writer.plan.action_slot = writer.layer(slot, 3)
    Pass(writer, 9, kernels).assert_equal()
    Pass(writer, 9, kernels, (1, 3), with_gradient=False).assert_equal()


def test_a_norm_of_one_number_is_its_bias():
    writer = PlanWriter(4)
    writer.plan.action_slot = writer.norm(writer.layer(0, 1))
    Pass(writer, 9, "").assert_equal()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("activation", Activation)
@pytest.mark.parametrize("has_norms", [False, True])
@pytest.mark.parametrize("width", [1, 7, 84])
def test_a_residual_layer_adds_its_input_to_what_it_gives(width, has_norms, activation, kernels):
    has_norms = has_norms and width > 1
    Pass(residual_network(width, activation, has_norms), 67, kernels).assert_equal()
    Pass(residual_network(width, activation, has_norms), 67, kernels, with_gradient=False).assert_equal()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("activation", Activation)
@pytest.mark.parametrize(("width", "inside"), [(3, 7), (23, 46), (64, 64)])
def test_a_block_of_two_layers_adds_what_it_makes_of_its_normalised_input(width, inside, activation, kernels):
    Pass(pre_norm_network(width, inside, activation), 66, kernels).assert_equal()
    Pass(pre_norm_network(width, inside, activation), 66, kernels, (1, 3), with_gradient=False).assert_equal()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("activation", Activation)
def test_a_sum_of_layers_and_slots_has_one_norm_and_one_activation(activation, kernels):
    writer = PlanWriter(6)
    first, other = writer.layer(0, 9, Activation.TANH), writer.layer(0, 9)
    total = writer.slot(9)
    for source in (first, other):
        writer.identity(source, total, activation)
    writer.norm(writer.identity(first, writer.add(first, total, activation), activation))
    writer.plan.action_slot = writer.identity(total, writer.add(first, writer.slot(9)))
    Pass(writer, 20, kernels).assert_equal()


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


def norm(**changes):
    return NormPlan(**{"target": 1, "size": 8, "weight_offset": 0, "bias_offset": 8, "epsilon": 1e-5} | changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norms": [norm(target=9)]}, "norm 0 has target slot 9"),
        ({"norms": [norm(size=7)]}, "norm 0 has size 7, but its target slot has size 8"),
        ({"norms": [norm(weight_offset=117)]}, r"norm 0: weight or bias \[117, 125\) is not within the 121 parameters"),
        ({"norms": [norm(bias_offset=10**9)]}, "norm 0: weight or bias"),
        ({"norms": [norm(epsilon=0.0)]}, "norm 0 has epsilon 0.0"),
        ({"norms": [norm(), norm()]}, "norm 1 is the second of slot 1"),
        ({"value_slot": None}, "action_slot and value_slot are both missing"),
        ({"value_slot": 7}, "value_slot 7 must be a slot that layers write"),
        ({"action_slot": 0}, "action_slot 0 must be a slot that layers write"),
        ({"action_slot": 3}, "must be two different slots"),
    ],
)
def test_a_plan_with_invalid_outputs_or_norms_is_refused(change, message):
    writer = critic(4, 8)
    with pytest.raises(ValueError, match=message):
        native_engine.native_learner.NetworkPass(replace(writer.plan, **change), writer.parameter_count, 1)


def test_an_identity_between_slots_of_different_sizes_is_refused():
    writer = PlanWriter(4)
    writer.plan.action_slot = writer.layer(0, 3)
    layer = replace(writer.plan.layers[0], weight_offset=None)
    with pytest.raises(ValueError, match="layer 0 adds a slot of size 4 to one of size 3"):
        native_engine.native_learner.NetworkPass(replace(writer.plan, layers=[layer]), 15, 1)


def test_input_columns_beyond_the_input_are_refused():
    writer = critic(4, 8)
    parameters = np.zeros(writer.parameter_count, np.float32)
    for has_gradients, columns in ((True, (0, 5)), (True, (-1, 2)), (False, (0, 4))):
        native = native_engine.native_learner.NetworkPass(
            writer.plan, parameters.size, 1, input_gradients=has_gradients
        )
        with pytest.raises(ValueError, match=r"input_columns \(.*\) must be within the 4 inputs"):
            native.backward(parameters, columns, None)
