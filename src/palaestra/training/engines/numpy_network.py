"""`policy=mlp` without torch: its initial weights, and its plan for the native engine.

Its towers are simple enough to be known without building the graph. Weights are drawn with NumPy from the run's seed,
in the order of the module's parameters; every engine starts with these, whenever torch is imported. A test holds layout
and plan to those of the module.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.spaces import BoxSpec, DiscreteSpec
from palaestra.policies.roles import role_takes
from palaestra.training.engines.network_plan import (
    Activation,
    LayerPlan,
    NetworkPlan,
    NormPlan,
    Unsupported,
    plan_head,
    plan_input,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palaestra.config.policy import PolicyConfig, Role
    from palaestra.core.spaces import EnvInterface

HIDDEN_GAIN, ACTOR_GAIN, CRITIC_GAIN = 2**0.5, 0.01, 1.0  # as policies/layers.py has them
NORM_EPSILON = 1e-5  # as torch.nn.LayerNorm has it
LINE = 16  # floats of a cache line
ACTIVATIONS = {"tanh": Activation.TANH, "relu": Activation.RELU, "gelu": Activation.GELU}


@dataclass(frozen=True)
class Settings:
    """`policy.settings` of the graph, where they are plain; what is not is left to the graph, which says what it is."""

    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    layer_norm: bool = False
    residual: bool = False
    log_std: float | None = None  # None: not set
    gain: float | None = None  # None: PPO's, or first weights as torch.nn.Linear has them
    dueling: bool = False

    @property
    def norm_sizes(self) -> tuple[int, ...]:
        return self.hidden if self.layer_norm else ()


@dataclass(frozen=True)
class NumpyNetwork:
    plan: NetworkPlan  # of critics: of each, in its own part of the values
    numbers: dict[str, NDArray[np.float32]]  # as `FlatOptimizer.adam_memory` calls them
    shapes: dict[str, tuple[int, ...]]  # of the parameters, by their names in the agent's state_dict and in its order

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """As that state_dict has them; views of `numbers`."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()])
        pieces = np.split(self.numbers["values"], ends[:-1])
        return {name: piece.reshape(self.shapes[name]) for name, piece in zip(self.shapes, pieces, strict=True)}


def build_numpy_network(config: PolicyConfig, interface: EnvInterface, seed: int) -> NumpyNetwork | None:
    """None where only torch can say what the network is."""
    settings = _read_settings(config)
    try:
        inputs = plan_input(interface.observation_space).size
        outputs = sum(plan_head(interface.action_space).counts)
    except Unsupported:
        return None
    if settings is None or not role_takes(config.role, interface.action_space):
        return None
    writer = ParameterWriter(NetworkPlan([inputs]), np.random.default_rng(seed), "network.nodes.")
    actor = writer.tower("actor", settings, config.role)
    if config.role == "actor_critic":
        _write_heads(writer, actor, outputs, settings, is_box=isinstance(interface.action_space, BoxSpec))
    else:
        _write_head_of_role(writer, actor, outputs, settings, config.role, interface)
    return writer.network()


def _write_heads(writer: ParameterWriter, actor: int, outputs: int, settings: Settings, *, is_box: bool) -> None:
    if is_box:
        log_std = np.full(outputs, settings.log_std or 0.0)
        writer.plan.log_std_offset = writer.write("action.log_std", log_std)  # a module's own precede its layers'
    writer.plan.action_slot = writer.layer("action.layer", actor, outputs, settings.gain or ACTOR_GAIN)
    critic = writer.tower("critic", settings, "actor_critic")
    writer.plan.value_slot = writer.layer("value.layer", critic, 1, settings.gain or CRITIC_GAIN)


def _write_head_of_role(
    writer: ParameterWriter, actor: int, outputs: int, settings: Settings, role: Role, interface: EnvInterface
) -> None:
    is_wide = role == "stochastic_actor" and isinstance(interface.action_space, BoxSpec)
    writer.plan.action_slot = writer.layer("action.layer", actor, 2 * outputs if is_wide else outputs, settings.gain)
    if is_wide and settings.log_std is not None:
        writer.parts[-1][outputs:] = settings.log_std  # of the bias
    if settings.dueling:
        writer.plan.value_slot = writer.layer("action.state_value", actor, 1, settings.gain)


def build_numpy_critics(config: PolicyConfig, interface: EnvInterface, count: int, seed: int) -> NumpyNetwork | None:
    """`count` critics of SAC and TD3, one behind the other; None where only torch can say what they are."""
    settings = _read_settings(config)
    try:
        inputs = plan_input(interface.observation_space).size
    except Unsupported:
        return None
    space = interface.action_space
    if settings is None or not isinstance(space, BoxSpec | DiscreteSpec):
        return None
    inputs, outputs = (inputs + space.size, 1) if isinstance(space, BoxSpec) else (inputs, space.count)
    rng = np.random.default_rng(seed)
    critics = []
    for number in range(count):
        writer = ParameterWriter(NetworkPlan([inputs]), rng, f"{number}.nodes.")
        slot = writer.tower("critic", settings, config.role)
        writer.plan.value_slot = writer.layer("value.layer", slot, outputs, settings.gain)
        critics.append(writer)
    shapes = {name: shape for writer in critics for name, shape in writer.shapes.items()}
    values = np.concatenate([part for writer in critics for part in writer.parts])
    return NumpyNetwork(critics[0].plan, _adam_memory(values), shapes)


class ParameterWriter:
    """Writes parameters one behind the other, and the plan that says where they are."""

    def __init__(self, plan: NetworkPlan, rng: np.random.Generator, prefix: str) -> None:
        self.plan = plan
        self.parts: list[NDArray[np.float32]] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._rng = rng
        self._prefix = prefix  # of the parameters' names
        self._written = 0

    def network(self) -> NumpyNetwork:
        return NumpyNetwork(self.plan, _adam_memory(np.concatenate(self.parts)), self.shapes)

    def tower(self, node: str, settings: Settings, role: Role) -> int:
        """The slot that its last layer writes."""
        gain = settings.gain or (HIDDEN_GAIN if role == "actor_critic" else None)
        widths = (self.plan.slot_sizes[0], *settings.hidden)
        layers = [
            self._write_layer(f"{node}.layers.{number}", inputs, outputs, gain)
            for number, (inputs, outputs) in enumerate(pairwise(widths))
        ]
        norms = [self._write_norm(f"{node}.norms.{number}", size) for number, size in enumerate(settings.norm_sizes)]
        slot = 0
        for number, (weight, bias) in enumerate(layers):
            target = self._new_slot(settings.hidden[number])
            self._plan_layer(slot, target, ACTIVATIONS[settings.activation], weight, bias)
            if norms:
                self._plan_norm(target, *norms[number])
            slot = self._plan_sum(slot, target) if settings.residual and number else target
        return slot

    def layer(self, name: str, source: int, outputs: int, gain: float | None = None) -> int:
        """A layer without an activation; the slot that it writes. `gain`: see `_write_layer`."""
        target = self._new_slot(outputs)
        weight, bias = self._write_layer(name, self.plan.slot_sizes[source], outputs, gain)
        self._plan_layer(source, target, Activation.NONE, weight, bias)
        return target

    def write(self, name: str, numbers: NDArray[np.float64]) -> int:
        """The position of the first of them."""
        position = self._written
        self.shapes[f"{self._prefix}{name}"] = numbers.shape
        self.parts.append(numbers.astype(np.float32).ravel())
        self._written += numbers.size
        return position

    def _write_layer(self, name: str, inputs: int, outputs: int, gain: float | None) -> tuple[int, int]:
        """Positions of weight and bias. With a gain: orthogonal, biases 0; without: as torch.nn.Linear begins."""
        if gain is not None:
            drawn, biases = orthogonal(self._rng, outputs, inputs, gain), np.zeros(outputs)
        else:
            limit = 1 / math.sqrt(inputs)
            drawn = self._rng.uniform(-limit, limit, (outputs, inputs))
            biases = self._rng.uniform(-limit, limit, outputs)
        return self.write(f"{name}.weight", drawn), self.write(f"{name}.bias", biases)

    def _write_norm(self, name: str, size: int) -> tuple[int, int]:
        return self.write(f"{name}.weight", np.ones(size)), self.write(f"{name}.bias", np.zeros(size))

    def _new_slot(self, size: int) -> int:
        self.plan.slot_sizes.append(size)
        return len(self.plan.slot_sizes) - 1

    def _plan_layer(
        self, source: int, target: int, activation: Activation, weight: int | None = None, bias: int | None = None
    ) -> None:
        """Without a weight: the source is added as it is."""
        inputs, outputs = self.plan.slot_sizes[source], self.plan.slot_sizes[target]
        layer = LayerPlan(
            source=source,
            target=target,
            inputs=inputs,
            outputs=outputs,
            weight_offset=weight,
            weight_row_stride=0 if weight is None else inputs,
            bias_offset=bias,
            activation=activation,
        )
        self.plan.layers.append(layer)

    def _plan_sum(self, first: int, second: int) -> int:
        target = self._new_slot(self.plan.slot_sizes[first])
        self._plan_layer(first, target, Activation.NONE)
        self._plan_layer(second, target, Activation.NONE)
        return target

    def _plan_norm(self, target: int, weight: int, bias: int) -> None:
        size = self.plan.slot_sizes[target]
        norm = NormPlan(target=target, size=size, weight_offset=weight, bias_offset=bias, epsilon=NORM_EPSILON)
        self.plan.norms.append(norm)


def orthogonal(rng: np.random.Generator, rows: int, columns: int, gain: float) -> NDArray[np.float64]:
    """[rows, columns] whose shorter side is orthonormal, times `gain`; uniform over all such matrices."""
    drawn = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    q *= np.sign(np.diagonal(r))  # without this the factorisation's own habits would show
    return gain * (q if rows >= columns else q.T)


def _adam_memory(values: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    blocks = {name: _aligned(values.size) for name in ("values", "gradient", "mean", "spread")}
    blocks["values"][:] = values
    return {**blocks, "step_count": np.zeros((), np.float32)}


def _aligned(count: int) -> NDArray[np.float32]:
    """Zeros that begin a cache line, as torch's do; NumPy's may begin anywhere in one."""
    roomy = np.zeros(count + LINE, np.float32)
    address: int = roomy.__array_interface__["data"][0]
    skipped = -(address // 4) % LINE
    return roomy[skipped : skipped + count]


def _read_settings(config: PolicyConfig) -> Settings | None:
    given: dict[str, Any] = dict(config.settings)
    head = given.pop("action", {})
    if config.graph != "mlp" or not set(given) <= {field.name for field in fields(Settings)} - {"dueling"}:
        return None
    if not isinstance(head, dict) or not set(head) <= {"dueling"}:
        return None
    if "hidden" in given:
        given["hidden"] = tuple(given["hidden"]) if isinstance(given["hidden"], list | tuple) else None
    settings = Settings(**given, **head)
    return settings if _is_plain(settings) and _fits(settings, config.role) else None


def _is_plain(settings: Settings) -> bool:
    return (
        settings.hidden is not None
        and all(type(size) is int and size > 0 for size in settings.hidden)
        and settings.activation in ACTIVATIONS
        and all(type(flag) is bool for flag in (settings.layer_norm, settings.residual, settings.dueling))
        and (settings.log_std is None or type(settings.log_std) in (int, float))
        and (settings.gain is None or (type(settings.gain) in (int, float) and settings.gain > 0))
    )


def _fits(settings: Settings, role: Role) -> bool:
    """Whether the graph takes them."""
    if settings.residual and len(set(settings.hidden)) > 1:
        return False
    has_log_std = role in ("actor_critic", "stochastic_actor")
    return (has_log_std or settings.log_std is None) and (role == "action_values" or not settings.dueling)
