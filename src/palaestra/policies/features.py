"""Features by name: a policy keeps the ids it was trained with, whatever the environment calls them today.

Named features come in two layouts. *Tokens* are bytes [tokens, 3] = (packed coordinate, feature id, value), where a
coordinate of 255 means that nothing is there. Everything else has its features along the first axis: id 4 is channel 4
of a box [channels, height, width], or entry 4 of a vector. The translation stands in front of the observation
normaliser and of the network, so that there is no encoder that could forget it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, EnvInterface, FeatureSpec, SpaceSpec

if TYPE_CHECKING:
    from palaestra.policies.base import Observation

TOKEN_PARTS = 3  # coordinate, feature id, value
NOTHING = 255  # the coordinate of an empty token
ID_COUNT = 256


@dataclass(frozen=True)
class Translation:
    """From the environment's ids to the policy's."""

    ids: tuple[tuple[int, int], ...]  # (environment's, policy's) of every feature both know
    masked: tuple[str, ...]  # features of the environment that the policy does not know
    missing: tuple[str, ...]  # features of the policy that the environment does not have

    @property
    def is_identity(self) -> bool:
        return not self.masked and all(theirs == ours for theirs, ours in self.ids)


def translate(policy: EnvInterface, env: EnvInterface) -> Translation:
    ours = {feature.name: feature.id for feature in policy.features}
    theirs = {feature.name: feature.id for feature in env.features}
    return Translation(
        ids=tuple((id_, ours[name]) for name, id_ in theirs.items() if name in ours),
        masked=tuple(name for name in theirs if name not in ours),
        missing=tuple(name for name in ours if name not in theirs),
    )


def adopt_features(policy: EnvInterface, env: EnvInterface) -> EnvInterface:
    """The policy's interface with the environment's new features in free slots, for training on in that environment.

    A feature that finds no free slot (a box has as many as it has channels) is left out, and so stays masked.
    """
    used = {feature.id for feature in policy.features}
    free = iter(id_ for id_ in range(slot_count(policy.observation_space)) if id_ not in used)
    known = {feature.name for feature in policy.features}
    fresh = [feature for feature in env.features if feature.name not in known]
    adopted = [replace(feature, id=slot) for feature, slot in zip(fresh, free, strict=False)]
    return replace(policy, features=(*policy.features, *adopted))


def slot_count(space: SpaceSpec) -> int:
    """How many features the observation has room for."""
    parts = [part for _, part in _named_parts(space)]
    return min((ID_COUNT if is_tokens(part) else part.shape[0] for part in parts), default=0)


def is_tokens(space: SpaceSpec | None) -> bool:
    return (
        isinstance(space, BoxSpec)
        and space.dtype == "uint8"
        and len(space.shape) == 2
        and space.shape[1] == TOKEN_PARTS
    )


def channel_scales(features: tuple[FeatureSpec, ...], count: int) -> Tensor:
    """[count] by id; 1 where no feature is."""
    scales = torch.ones(count)
    for feature in features:
        if feature.id < count:
            scales[feature.id] = feature.normalization
    return scales


class FeatureMap(nn.Module):
    """An environment's observations as the policy knows them. Nothing of it is saved: two interfaces say it all."""

    def __init__(self, policy: EnvInterface, env: EnvInterface) -> None:
        super().__init__()
        self.translation = translate(policy, env)
        theirs = dict(_named_parts(env.observation_space))
        self.parts = nn.ModuleDict(
            {
                f"part_{name}": _part_map(self.translation, part, theirs[name])
                for name, part in _named_parts(policy.observation_space)
            }
        )

    def forward(self, observation: Observation) -> Observation:
        """[T, B, …], in the dtype it came in"""
        if isinstance(observation, Tensor):
            mapped: Tensor = self.parts["part_"](observation)
            return mapped
        return {
            name: self.parts[f"part_{name}"](part) if f"part_{name}" in self.parts else part
            for name, part in observation.items()
        }


def feature_map(policy: EnvInterface, env: EnvInterface) -> FeatureMap | None:
    """None when the environment speaks the policy's language already. Spaces that cannot be translated are refused."""
    refuse_other_spaces(policy, env)
    if not (policy.features and env.features):
        return None
    if policy.observation_space == env.observation_space and translate(policy, env).is_identity:
        return None
    return FeatureMap(policy, env)


def refuse_other_spaces(policy: EnvInterface, env: EnvInterface) -> None:
    """Named features may be more, fewer or elsewhere; everything else of the spaces must be as in training."""
    for what in ("observation_space", "action_space"):
        ours, theirs = getattr(policy, what), getattr(env, what)
        can_differ = what == "observation_space" and policy.features and env.features
        if ours != theirs and not (can_differ and _differs_in_features_only(ours, theirs)):
            raise UsageError(
                f"The policy was trained with the {what.replace('_', ' ')} {ours}; this environment has {theirs}.",
                "Choose an environment with the same spaces.",
            )


def _differs_in_features_only(ours: SpaceSpec, theirs: SpaceSpec) -> bool:
    own, other = dict(_parts(ours)), dict(_parts(theirs))
    if list(own) != list(other):
        return False
    named = dict(_named_parts(ours))
    return all(part == other[name] or (name in named and _same_rest(part, other[name])) for name, part in own.items())


def _same_rest(ours: SpaceSpec, theirs: SpaceSpec) -> bool:
    """Equal but for the first axis: the number of tokens, of channels, of entries."""
    if not (isinstance(ours, BoxSpec) and isinstance(theirs, BoxSpec)):
        return False
    return ours.shape[1:] == theirs.shape[1:] and ours.dtype == theirs.dtype and is_tokens(ours) == is_tokens(theirs)


def _parts(space: SpaceSpec) -> tuple[tuple[str, SpaceSpec], ...]:
    return space.parts if isinstance(space, DictSpec) else (("", space),)


def _named_parts(space: SpaceSpec) -> list[tuple[str, BoxSpec]]:
    """The parts that features are about: tokens and boxes of channels; of a lone observation also a vector."""
    boxes = [(name, part) for name, part in _parts(space) if isinstance(part, BoxSpec) and part.shape]
    if not isinstance(space, DictSpec):
        return boxes
    return [(name, part) for name, part in boxes if is_tokens(part) or len(part.shape) == 3]


def _part_map(translation: Translation, ours: BoxSpec, theirs: BoxSpec) -> nn.Module:
    if is_tokens(ours):
        return TokenMap(translation)
    return ChannelMap(translation, ours.shape[0], theirs.shape[0])


class TokenMap(nn.Module):
    """The id column through a table; a token of an unknown feature becomes an empty one."""

    table: Tensor
    is_known: Tensor

    def __init__(self, translation: Translation) -> None:
        super().__init__()
        table = torch.zeros(ID_COUNT, dtype=torch.uint8)
        is_known = torch.zeros(ID_COUNT, dtype=torch.bool)
        for theirs, ours in translation.ids:
            table[theirs] = ours
            is_known[theirs] = True
        self.register_buffer("table", table, persistent=False)
        self.register_buffer("is_known", is_known, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """[T, B, tokens, 3] uint8"""
        coordinate, ids, value = tokens.unbind(-1)
        index = ids.long()
        is_there = self.is_known[index] & (coordinate != NOTHING)
        mapped = torch.stack([coordinate, self.table[index], value], dim=-1)
        return mapped.masked_fill(~is_there.unsqueeze(-1), NOTHING)


class ChannelMap(nn.Module):
    """Channels put where the policy expects them; those it does not know are dropped, those it misses are zero."""

    sources: Tensor

    def __init__(self, translation: Translation, count: int, their_count: int) -> None:
        super().__init__()
        sources = torch.full((count,), their_count)  # one past the last: a channel of zeros
        for theirs, ours in translation.ids:
            sources[ours] = theirs
        self.register_buffer("sources", sources, persistent=False)

    def forward(self, box: Tensor) -> Tensor:
        """[T, B, channels, …]"""
        zeros = torch.zeros_like(box[:, :, :1])
        return torch.cat([box, zeros], dim=2).index_select(2, self.sources)
