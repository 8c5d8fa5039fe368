"""How much memory a replay buffer takes, told before it is made."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from palaestra.algorithms.buffers.frame_storage import stack_axis
from palaestra.algorithms.buffers.replay_buffer import action_dtype, action_shape
from palaestra.algorithms.buffers.rollout_buffer import parts_of, shape_of
from palaestra.policies.observations import storage_dtype

if TYPE_CHECKING:
    from palaestra.core.spaces import EnvInterface, SpaceSpec

REWARD_BYTES, END_BYTES, SLOT_BYTES, AGE_BYTES = 4, 1, 4, 1  # of one transition, beside observation and action


@dataclass(frozen=True)
class ReplaySize:
    """Of one process, when the buffer is full."""

    transitions: int
    memory: int  # bytes
    disk: int  # bytes, as it is saved
    has_frames: bool  # of stacks that are stored frame by frame
    whole: int  # bytes of memory if the images are no stacks after all; equal to `memory` where they cannot be


def replay_size(interface: EnvInterface, capacity: int, env_count: int, priority_bytes: int = 0) -> ReplaySize:
    """`capacity`: transitions; `priority_bytes`: of each transition, beside it"""
    rows = max(2, capacity // env_count)
    parts = [part for _, part in parts_of(interface.observation_space)]
    action = prod(action_shape(interface.action_space)) * np.dtype(action_dtype(interface.action_space)).itemsize
    others = action + REWARD_BYTES + END_BYTES
    in_frames = sum(_part_bytes(part) for part in parts)
    whole = sum(_whole_bytes(part) for part in parts)
    count = rows * env_count
    beside = SLOT_BYTES + priority_bytes
    return ReplaySize(
        transitions=count,
        memory=count * (in_frames + others + beside),
        disk=count * (in_frames + others),
        has_frames=any(stack_axis(part) is not None for part in parts),
        whole=count * (whole + others + beside),
    )


def _whole_bytes(part: SpaceSpec) -> int:
    return prod(shape_of(part)) * storage_dtype(part).itemsize


def _part_bytes(part: SpaceSpec) -> int:
    axis = stack_axis(part)
    if axis is None:
        return _whole_bytes(part)
    return _whole_bytes(part) // shape_of(part)[axis] + AGE_BYTES + SLOT_BYTES
