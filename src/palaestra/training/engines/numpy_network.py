"""`policy=mlp` without torch: its initial weights, and its plan for the native engine.

The two towers of that graph are simple enough to be known without building it. Their weights are drawn with NumPy from
the run's seed, in the order of the module's parameters; every engine starts with these, whenever torch is imported. A
test holds layout and plan to those of the module.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.spaces import BoxSpec
from palaestra.training.engines.network_plan import (
    Activation,
    LayerPlan,
    NetworkPlan,
    Unsupported,
    plan_head,
    plan_input,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palaestra.config.policy import PolicyConfig
    from palaestra.core.spaces import EnvInterface

HIDDEN_GAIN, ACTOR_GAIN, CRITIC_GAIN = 2**0.5, 0.01, 1.0  # as policies/layers.py has them
LINE = 16  # floats of a cache line
ACTIVATIONS = {"tanh": Activation.TANH, "relu": Activation.RELU, "gelu": Activation.GELU}


@dataclass(frozen=True)
class Settings:
    """`policy.settings` of the graph, where they are plain; what is not is left to the graph, which says what it is."""

    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    log_std: float = 0.0


@dataclass(frozen=True)
class NumpyNetwork:
    plan: NetworkPlan
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
    if settings is None:
        return None
    try:
        inputs = plan_input(interface.observation_space).size
        outputs = sum(plan_head(interface.action_space).counts)
    except Unsupported:
        return None
    writer = ParameterWriter(NetworkPlan([inputs]), np.random.default_rng(seed))
    actor = writer.tower("actor", settings)
    if isinstance(interface.action_space, BoxSpec):
        spreads = np.full(outputs, settings.log_std)
        writer.plan.log_std_offset = writer.write(
            "action.log_std", spreads
        )  # a module's own numbers precede its layers'
    writer.plan.action_slot = writer.layer("action.layer", actor, outputs, ACTOR_GAIN, Activation.NONE)
    critic = writer.tower("critic", settings)
    writer.plan.value_slot = writer.layer("value.layer", critic, 1, CRITIC_GAIN, Activation.NONE)
    return NumpyNetwork(writer.plan, _adam_memory(np.concatenate(writer.parts)), writer.shapes)


class ParameterWriter:
    """Writes parameters one behind the other, and the plan that says where they are."""

    def __init__(self, plan: NetworkPlan, rng: np.random.Generator) -> None:
        self.plan = plan
        self.parts: list[NDArray[np.float32]] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._rng = rng
        self._written = 0

    def tower(self, node: str, settings: Settings) -> int:
        """The slot that its last layer writes."""
        slot = 0
        for number, size in enumerate(settings.hidden):
            slot = self.layer(f"{node}.layers.{number}", slot, size, HIDDEN_GAIN, ACTIVATIONS[settings.activation])
        return slot

    def layer(self, name: str, source: int, outputs: int, gain: float, activation: Activation) -> int:
        inputs, target = self.plan.slot_sizes[source], len(self.plan.slot_sizes)
        weight = self.write(f"{name}.weight", orthogonal(self._rng, outputs, inputs, gain))
        bias = self.write(f"{name}.bias", np.zeros(outputs))
        self.plan.slot_sizes.append(outputs)
        self.plan.layers.append(
            LayerPlan(
                source=source,
                target=target,
                inputs=inputs,
                outputs=outputs,
                weight_offset=weight,
                weight_row_stride=inputs,
                bias_offset=bias,
                activation=activation,
            )
        )
        return target

    def write(self, name: str, numbers: NDArray[np.float64]) -> int:
        """The position of the first of them."""
        position = self._written
        self.shapes[f"network.nodes.{name}"] = numbers.shape
        self.parts.append(numbers.astype(np.float32).ravel())
        self._written += numbers.size
        return position


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
    if config.graph != "mlp" or not set(given) <= {"hidden", "activation", "log_std"}:
        return None
    if "hidden" in given:
        given["hidden"] = tuple(given["hidden"]) if isinstance(given["hidden"], list | tuple) else None
    settings = Settings(**given)
    return settings if _is_plain(settings) else None


def _is_plain(settings: Settings) -> bool:
    return (
        settings.hidden is not None
        and all(type(size) is int and size > 0 for size in settings.hidden)
        and settings.activation in ACTIVATIONS
        and type(settings.log_std) in (int, float)
    )
