"""From what an environment gives to what a network reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.lazy_import import lazy_import
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec, SpaceSpec

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import functional

    from palaestra.policies.base import Observation
else:
    torch = lazy_import("torch")
    functional = lazy_import("torch.nn.functional")


def to_tensor(space: SpaceSpec, observation: Any) -> Observation:
    """One environment's observation as a batch [T=1, B=1, …] in the dtype that the network stores."""
    if isinstance(space, DictSpec):
        parts = {name: to_tensor(part, observation[name]) for name, part in space.parts}
        return {name: part for name, part in parts.items() if isinstance(part, torch.Tensor)}
    return torch.from_numpy(np.array(observation, dtype=storage_dtype(space), order="C"))[None, None]


def storage_dtype(space: SpaceSpec) -> np.dtype[Any]:
    """How observations of a space are kept in rollouts: bytes stay bytes, choices int64, the rest float32."""
    if isinstance(space, BoxSpec):
        return np.dtype(np.uint8) if space.dtype == "uint8" else np.dtype(np.float32)
    return np.dtype(np.int64)


def flat_size(space: SpaceSpec) -> int:
    """Length of the vector that `flatten_observation` makes of an observation."""
    match space:
        case BoxSpec():
            return space.size
        case DiscreteSpec():
            return space.count
        case MultiDiscreteSpec():
            return sum(space.counts)
        case DictSpec():
            return sum(flat_size(part) for _, part in space.parts)


def flatten_observation(space: SpaceSpec, observation: Any) -> Tensor:
    """Any observation [T, B, …] as one float vector [T, B, flat_size]; choices become one-hot, bytes 0 to 1."""
    match space:
        case BoxSpec():
            rows = observation.shape[:2]  # a box of shape () has one number
            flat: Tensor = observation if len(space.shape) == 1 else observation.reshape(*rows, space.size)
            return flat.float() / 255 if space.dtype == "uint8" else flat
        case DiscreteSpec():
            return functional.one_hot(observation - space.start, space.count).float()
        case MultiDiscreteSpec():
            starts = space.starts or (0,) * len(space.counts)
            hot = [
                functional.one_hot(observation[..., index] - start, count)
                for index, (count, start) in enumerate(zip(space.counts, starts, strict=True))
            ]
            return torch.cat(hot, dim=-1).float()
        case DictSpec():
            return torch.cat([flatten_observation(part, observation[name]) for name, part in space.parts], dim=-1)
