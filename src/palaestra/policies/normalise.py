"""Running statistics that belong to the policy and travel in its checkpoint.

They change only between updates, never inside one: what a rollout saw and what its update sees are the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, SpaceSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.policies.base import Observation

    Stack = Callable[[Tensor], Tensor]  # […] of this process to [processes, …] of all that train together

EPSILON = 1e-8


def own_only(tensor: Tensor) -> Tensor:
    """The `Stack` of a process that trains alone."""
    return tensor.unsqueeze(0)


class RunningMoments(nn.Module):
    """Mean and variance of everything seen so far, merged batch by batch (Chan et al.), in float64."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def update(self, batch: Tensor, stack: Stack = own_only) -> None:
        """`batch` [samples, *shape]; processes that train together have as many samples each, and end up equal."""
        values = batch.double()
        seen = float(values.shape[0])
        for mean, variance in stack(torch.stack([values.mean(dim=0), values.var(dim=0, correction=0)])):
            self._merge(mean, variance, seen)

    def _merge(self, mean: Tensor, variance: Tensor, seen: float) -> None:
        total = self.count + seen
        shift = mean - self.mean
        spread = self.variance * self.count + variance * seen + shift.square() * self.count * seen / total
        self.mean += shift * (seen / total)
        self.variance.copy_(spread / total)
        self.count += seen


class BoxNormalizer(nn.Module):
    """(x - mean) / std, clipped; the identity until something was seen."""

    shift: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, ...], clip: float = 10.0) -> None:
        super().__init__()
        self.moments = RunningMoments(shape)
        self.clip = clip
        # What forward needs, in the network's precision; derived, so not saved.
        self.register_buffer("shift", torch.zeros(shape), persistent=False)
        self.register_buffer("scale", torch.ones(shape), persistent=False)
        self.register_load_state_dict_post_hook(_derive_after_loading)  # type: ignore[no-untyped-call]

    def forward(self, observation: Tensor) -> Tensor:
        """`observation` [T, B, *shape]"""
        return ((observation - self.shift) * self.scale).clamp(-self.clip, self.clip)

    def update(self, observation: Tensor, stack: Stack = own_only) -> None:
        """`observation` [T, B, *shape], raw"""
        self.moments.update(observation.flatten(0, 1), stack)
        self.derive()

    def derive(self) -> None:
        self.shift.copy_(self.moments.mean)
        self.scale.copy_((self.moments.variance + EPSILON).rsqrt())


def _derive_after_loading(module: nn.Module, _incompatible: Any) -> None:
    assert isinstance(module, BoxNormalizer)
    module.derive()


class ObservationNormalizer(nn.Module):
    """Normalises the float parts of an observation; bytes and choices pass through as they are."""

    def __init__(self, space: SpaceSpec) -> None:
        super().__init__()
        parts = space.parts if isinstance(space, DictSpec) else (("", space),)
        floats = {name: part for name, part in parts if isinstance(part, BoxSpec) and part.dtype != "uint8"}
        if not floats:
            raise UsageError(
                "policy.normalize_observations=true needs observations of real numbers; this environment has none.",
                "Set policy.normalize_observations=false.",
            )
        self.parts = nn.ModuleDict({f"part_{name}": BoxNormalizer(part.shape) for name, part in floats.items()})

    def forward(self, observation: Observation) -> Observation:
        if isinstance(observation, Tensor):
            normal: Tensor = self.parts["part_"](observation)
            return normal
        return {
            name: self.parts[f"part_{name}"](part) if f"part_{name}" in self.parts else part
            for name, part in observation.items()
        }

    def update(self, observation: Observation, stack: Stack = own_only) -> None:
        named = {"": observation} if isinstance(observation, Tensor) else observation
        for name, part in named.items():
            if f"part_{name}" in self.parts:
                cast("BoxNormalizer", self.parts[f"part_{name}"]).update(part, stack)


class ReturnScaler(nn.Module):
    """Scales rewards by the spread of the discounted return, so that value targets have a size near one."""

    def __init__(self, clip: float = 10.0) -> None:
        super().__init__()
        self.moments = RunningMoments(())
        self.clip = clip

    @torch.no_grad()
    def scale(
        self, rewards: Tensor, ended: Tensor, running: Tensor, gamma: float, stack: Stack = own_only
    ) -> tuple[Tensor, Tensor]:
        """Scaled rewards [T, B] and the discounted sums [B] to continue with.

        The statistics take in this rollout first, so that the first rewards of a run are scaled too.
        """
        sums = torch.empty_like(rewards)
        for step in range(rewards.shape[0]):
            running = running * gamma + rewards[step]
            sums[step] = running
            running = running.masked_fill(ended[step], 0.0)
        self.moments.update(sums.flatten(), stack)
        factor = (self.moments.variance + EPSILON).rsqrt().to(rewards.dtype)
        return (rewards * factor).clamp(-self.clip, self.clip), running
