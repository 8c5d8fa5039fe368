"""Gymnasium's spaces as specs, observations as arrays, and a network's action as what `env.step` takes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from palaestra.core.errors import UsageError
from palaestra.core.spaces import (
    BoxSpec,
    DictSpec,
    DiscreteSpec,
    EnvInterface,
    MultiDiscreteSpec,
    SpaceSpec,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    Observation = NDArray[Any] | dict[str, "Observation"]

SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these"


def space_spec(space: spaces.Space[Any]) -> SpaceSpec:
    """The same space in the words that a checkpoint keeps."""
    match space:
        case spaces.Box():
            return BoxSpec(space.shape, str(space.dtype), _folded(space.low), _folded(space.high))
        case spaces.Discrete():
            return DiscreteSpec(int(space.n), int(space.start))
        case spaces.MultiDiscrete():
            starts = tuple(int(start) for start in space.start.ravel())
            return MultiDiscreteSpec(tuple(int(count) for count in space.nvec.ravel()), starts)
        case spaces.MultiBinary():
            size = int(np.prod(space.shape))
            return MultiDiscreteSpec((2,) * size, (0,) * size)
        case spaces.Dict():
            return _flat_dict(_part_specs(space.spaces))
        case spaces.Tuple():
            return _flat_dict(_part_specs({str(index): part for index, part in enumerate(space.spaces)}))
        case _:
            raise UsageError(f"A {type(space).__name__} space is not supported: {space}.", f"Supported: {SUPPORTED}.")


def _part_specs(parts: Mapping[str, spaces.Space[Any]]) -> dict[str, SpaceSpec]:
    """A part that is not supported is refused by name, with the wrapper that leaves it out."""
    specs: dict[str, SpaceSpec] = {}
    for name, part in parts.items():
        try:
            specs[str(name)] = space_spec(part)
        except UsageError as error:
            others = [other for other in parts if other != name]
            raise UsageError(
                f"The part '{name}' is a {type(part).__name__} space, which is not supported ({part}).",
                f"Supported: {SUPPORTED}. {_wrapper_without(part, others)}, "
                "register the wrapped environment in a module of yours and train it as env.id=my_module:My-v0.",
            ) from error
    return specs


def _wrapper_without(part: spaces.Space[Any], others: list[str]) -> str:
    if type(part).__module__.startswith("minigrid."):
        return "Wrap it in minigrid.wrappers.ImgObsWrapper (image only) or FlatObsWrapper (image and mission)"
    return f"Wrap it in gymnasium.wrappers.FilterObservation(env, filter_keys={others})"


def interface_of(env: gymnasium.Env[Any, Any]) -> EnvInterface:
    """What a policy may know of this environment; an action space that no policy can serve is refused here.

    An environment names the features of its observation with an attribute `feature_specs`: FeatureSpecs, in any order.
    """
    _refuse_unplayable(env.action_space)
    features = tuple(getattr(env.unwrapped, "feature_specs", ()))
    return EnvInterface(space_spec(env.observation_space), space_spec(env.action_space), features)


def observation_arrays(spec: SpaceSpec, observation: Any) -> Observation:
    """One observation as arrays: shape () for Discrete, [entries] for MultiDiscrete, Tuple parts by "0", "1", …"""
    match spec:
        case DictSpec():
            leaves = dict(_leaves(observation))
            return {name: observation_arrays(part, leaves[name]) for name, part in spec.parts}
        case MultiDiscreteSpec():
            return np.asarray(observation).reshape(-1)
        case _:
            return np.asarray(observation)


def _flat_dict(parts: dict[str, SpaceSpec]) -> DictSpec:
    """Nested parts are named with dots ("hand.left"), so that all other code handles one level only."""
    flat: list[tuple[str, SpaceSpec]] = []
    for name, part in parts.items():
        inner = part.parts if isinstance(part, DictSpec) else ((None, part),)
        flat += [(name if below is None else f"{name}.{below}", leaf) for below, leaf in inner]
    return DictSpec(tuple(flat))


def _leaves(observation: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    parts = observation if isinstance(observation, dict) else dict(enumerate(observation))
    for name, part in parts.items():
        if isinstance(part, dict | tuple):
            yield from _leaves(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", part


def to_env_action(spec: SpaceSpec, action: NDArray[Any]) -> Any:
    """A network's action for one environment (choices counted from 0, Box entries unbounded) -> what `step` takes."""
    return action_converter(spec)(action)


@lru_cache(maxsize=64)
def action_converter(spec: SpaceSpec) -> Callable[[NDArray[Any]], Any]:
    """`to_env_action` with everything that does not change worked out once, for loops."""
    match spec:
        case DiscreteSpec(start=first):
            return lambda action: int(action) + first
        case MultiDiscreteSpec(counts=counts, starts=starts):
            offsets = np.asarray(starts or (0,) * len(counts), dtype=np.int64)
            return lambda action: np.asarray(action, dtype=np.int64).reshape(offsets.shape) + offsets
        case BoxSpec():
            return _box_converter(spec)
        case DictSpec():
            raise UsageError("Actions of a Dict or Tuple space are not supported.", "Flatten them in a wrapper.")


def _box_converter(spec: BoxSpec) -> Callable[[NDArray[Any]], NDArray[Any]]:
    dtype = np.dtype(spec.dtype)
    low, high = (np.broadcast_to(np.asarray(side, dtype=dtype), (spec.size,)) for side in (spec.low, spec.high))
    low, high = low.reshape(spec.shape), high.reshape(spec.shape)

    def convert(action: NDArray[Any]) -> NDArray[Any]:
        clipped: NDArray[Any] = np.clip(np.asarray(action, dtype=dtype).reshape(spec.shape), low, high)
        return clipped

    return convert


def _folded(bounds: NDArray[Any]) -> tuple[float, ...]:
    """One number when all entries agree, so that an image's spec is not a megabyte of zeros."""
    flat = bounds.ravel()
    if flat.size and bool((flat == flat[0]).all()):
        return (float(flat[0]),)
    return tuple(float(bound) for bound in flat)


def _refuse_unplayable(space: spaces.Space[Any]) -> None:
    name = f"This environment's action space, {space},"
    if isinstance(space, spaces.Box) and not np.issubdtype(np.dtype(space.dtype), np.floating):
        raise UsageError(f"{name} is a Box of {space.dtype}, not of floats.", "Offer it as MultiDiscrete instead.")
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary) and len(space.shape) != 1:
        raise UsageError(f"{name} has {len(space.shape)} dimensions, not one.", "Flatten it in a wrapper.")
    if isinstance(space, spaces.Dict | spaces.Tuple):
        raise UsageError(f"{name} has several parts, which policies cannot act on.", "Flatten it in a wrapper.")


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
