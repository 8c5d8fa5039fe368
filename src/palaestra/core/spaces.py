"""What goes into a policy and what comes out of it, without Gymnasium or torch.

These specs are written into every checkpoint, so that a file alone says what it can play.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from palaestra.core.errors import DamagedFile


@dataclass(frozen=True)
class BoxSpec:
    """Numbers of one shape. `low` and `high` are flat, or one number when all entries agree."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: tuple[float, ...] = (float("-inf"),)
    high: tuple[float, ...] = (float("inf"),)

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class DiscreteSpec:
    count: int
    start: int = 0


@dataclass(frozen=True)
class MultiDiscreteSpec:
    counts: tuple[int, ...]
    starts: tuple[int, ...] = ()


@dataclass(frozen=True)
class DictSpec:
    """Named parts, in a fixed order."""

    parts: tuple[tuple[str, SpaceSpec], ...]


SpaceSpec = BoxSpec | DiscreteSpec | MultiDiscreteSpec | DictSpec


@dataclass(frozen=True)
class FeatureSpec:
    """One named number of an observation; ids may differ between environments, names do not."""

    name: str
    id: int
    normalization: float = 1.0


@dataclass(frozen=True)
class EnvInterface:
    """Everything a policy may know of its environment."""

    observation_space: SpaceSpec
    action_space: SpaceSpec
    features: tuple[FeatureSpec, ...] = ()


def encode_space(space: SpaceSpec) -> dict[str, Any]:
    match space:
        case BoxSpec():
            return {
                "kind": "box",
                "shape": list(space.shape),
                "dtype": space.dtype,
                "low": list(space.low),
                "high": list(space.high),
            }
        case DiscreteSpec():
            return {"kind": "discrete", "count": space.count, "start": space.start}
        case MultiDiscreteSpec():
            return {"kind": "multi_discrete", "counts": list(space.counts), "starts": list(space.starts)}
        case DictSpec():
            return {"kind": "dict", "parts": [[name, encode_space(part)] for name, part in space.parts]}


def decode_space(data: dict[str, Any]) -> SpaceSpec:
    try:
        match data["kind"]:
            case "box":
                return BoxSpec(
                    shape=tuple(int(side) for side in data["shape"]),
                    dtype=str(data["dtype"]),
                    low=tuple(float(value) for value in data["low"]),
                    high=tuple(float(value) for value in data["high"]),
                )
            case "discrete":
                return DiscreteSpec(count=int(data["count"]), start=int(data["start"]))
            case "multi_discrete":
                return MultiDiscreteSpec(
                    counts=tuple(int(count) for count in data["counts"]),
                    starts=tuple(int(start) for start in data["starts"]),
                )
            case "dict":
                return DictSpec(parts=tuple((str(name), decode_space(part)) for name, part in data["parts"]))
            case other:
                raise DamagedFile(f"A space of kind {other!r} is not known.", "It may come from a newer Palaestra.")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedFile(f"This description of a space cannot be read: {data!r} ({error}).") from error


def encode_interface(interface: EnvInterface) -> dict[str, Any]:
    return {
        "observation_space": encode_space(interface.observation_space),
        "action_space": encode_space(interface.action_space),
        "features": [asdict(feature) for feature in interface.features],
    }


def decode_interface(data: dict[str, Any]) -> EnvInterface:
    try:
        return EnvInterface(
            observation_space=decode_space(data["observation_space"]),
            action_space=decode_space(data["action_space"]),
            features=tuple(
                FeatureSpec(str(entry["name"]), int(entry["id"]), float(entry["normalization"]))
                for entry in data["features"]
            ),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedFile(f"This environment interface cannot be read ({error}).") from error
