"""What a component of a graph is: a module that knows what comes in, what goes out, and what may be set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from palaestra.config.base import Frozen
from palaestra.core.spaces import BoxSpec, DictSpec, EnvInterface, FeatureSpec, SpaceSpec

if TYPE_CHECKING:
    from palaestra.policies.base import Memory


@dataclass(frozen=True)
class Signal:
    """What flows from one node to the next; as a tensor it is [rows, *shape], with rows = T * B."""

    name: str  # of the node it comes from
    shape: tuple[int, ...]
    space: SpaceSpec | None = None  # set while these are the environment's own numbers, as it gave them
    features: tuple[FeatureSpec, ...] = ()  # names and normalisations of those numbers, where they have any

    @property
    def is_real(self) -> bool:
        """Floats that a layer can multiply; not bytes, not choices, not several parts."""
        return self.space is None or (isinstance(self.space, BoxSpec) and self.space.dtype != "uint8")

    def __str__(self) -> str:
        if isinstance(self.space, DictSpec):
            return f"'{self.name}' {{{', '.join(name for name, _ in self.space.parts)}}}"
        return f"'{self.name}' {list(self.shape)}"


class Misfit(Exception):
    """A component cannot work with what it is given; the text says why, with the numbers."""


class NoSettings(Frozen):
    pass


class Component(nn.Module):
    """Made as `Class(inputs, settings, interface)`; sets `output` there. Called with one tensor per input.

    Each tensor is [rows, *shape]: what a component does, it does to every step alike. See MemoryComponent for time.
    """

    Settings: ClassVar[type[Frozen]] = NoSettings
    input_count: ClassVar[tuple[int, int | None]] = (1, 1)  # at least, at most (None: any number)
    output: Signal

    def __init__(self, inputs: tuple[Signal, ...], settings: Any, interface: EnvInterface) -> None:
        super().__init__()
        del inputs, settings, interface

    def emit(self, *shape: int) -> None:
        """What comes out, per row."""
        self.output = Signal("", shape)


class Steps:
    """Where rows stand in time, and the memory on its way through one call of a policy."""

    __slots__ = ("batch_count", "memory", "next_memory", "starts", "time_count")

    def __init__(self, time_count: int, batch_count: int, memory: Memory, starts: Tensor | None) -> None:
        self.time_count = time_count
        self.batch_count = batch_count
        self.memory = memory
        self.starts = starts  # [T, B] bool
        self.next_memory: Memory = {}


class MemoryComponent(Component):
    """Called as `(rows, steps)`: reads its part of `steps.memory`, writes its part of `steps.next_memory`."""

    memory_shapes: dict[str, tuple[int, ...]]  # by name of the part, without B

    def name_memory(self, node: str) -> None:
        """From now on the parts are called `node.part`."""
        raise NotImplementedError


def one_vector(inputs: tuple[Signal, ...]) -> int:
    """The length of the one input, which must be a vector of floats."""
    (signal,) = inputs
    refuse_raw(signal)
    if len(signal.shape) != 1:
        raise Misfit(f"needs a vector, not {signal}; put a flatten node in front")
    return signal.shape[0]


def refuse_raw(signal: Signal) -> None:
    if isinstance(signal.space, DictSpec):
        names = [f"{signal.name}.{name}" for name, _ in signal.space.parts]
        raise Misfit(f"{signal} has several parts; choose one ({', '.join(names)}), or take all as a vector")
    if not signal.is_real:
        kind = "bytes" if isinstance(signal.space, BoxSpec) else "choices"
        fix = "an image or a vector" if kind == "bytes" else "an embedding or a vector"
        raise Misfit(f"cannot multiply the {kind} of {signal}; put {fix} node in front")
