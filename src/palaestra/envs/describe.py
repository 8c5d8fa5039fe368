"""A space in one short phrase, for messages that name two of them."""

from __future__ import annotations

from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec, SpaceSpec

FEW = 4


def describe_space(space: SpaceSpec) -> str:
    """`box [4] float32 from -1 to 1`, `2 choices`, `choices of 2, 3`, `{left: …, right: …}`."""
    match space:
        case BoxSpec():
            return f"box {list(space.shape)} {space.dtype} from {_bounds(space.low)} to {_bounds(space.high)}"
        case DiscreteSpec():
            start = f" from {space.start}" if space.start else ""
            return f"{space.count} choices{start}"
        case MultiDiscreteSpec():
            starts = f" from {', '.join(map(str, space.starts))}" if any(space.starts) else ""
            return f"choices of {', '.join(map(str, space.counts))}{starts}"
        case DictSpec():
            return "{" + ", ".join(f"{name}: {describe_space(part)}" for name, part in space.parts) + "}"


def _bounds(values: tuple[float, ...]) -> str:
    shown = ", ".join(f"{value:g}" for value in values[:FEW])
    return shown if len(values) == 1 else f"[{shown}{', …' if len(values) > FEW else ''}]"
