"""Contracts to plain data and back, so that YAML and JSON can carry them.

Only the dataclasses named here are ever built: nothing a file says can name a class of its own.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from palaestra.core.errors import DamagedFile
from palaestra.core.spaces import (
    BoxSpec,
    DictSpec,
    DiscreteSpec,
    EnvInterface,
    FeatureSpec,
    MultiDiscreteSpec,
    SpaceSpec,
)


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
