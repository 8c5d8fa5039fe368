"""What the replay buffer of a training will take, in a line for the log; what does not fit is refused beforehand."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from palaestra.algorithms.buffers.replay_size import ReplaySize, replay_size
from palaestra.config.off_policy import OffPolicyConfig
from palaestra.core.byte_counts import format_bytes
from palaestra.core.errors import UsageError
from palaestra.training.machine import memory_limit

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import EnvInterface

MEMORY_SHARE = 0.9  # of the machine's: the rest of the training needs some too
PRIORITY_BYTES = 32  # at most: two nodes of the sum tree for each leaf, and up to twice as many leaves as transitions
DISK_SHARE = 1.1  # of the buffer's size: what two checkpoints need that can both be continued from


def size_of(config: TrainConfig, interface: EnvInterface, world_size: int = 1) -> ReplaySize | None:
    """Of one process; None for algorithms without a replay buffer. Rows that the run does not reach take no memory."""
    settings = config.algorithm_settings
    if not isinstance(settings, OffPolicyConfig):
        return None
    capacity = min(settings.buffer_size, -(-config.total_steps // world_size))
    has_priorities = config.algorithm == "dqn" and config.dqn.prioritized.enabled
    return replay_size(interface, capacity, settings.env_count, PRIORITY_BYTES if has_priorities else 0)


def describe(config: TrainConfig, interface: EnvInterface, world_size: int = 1) -> str:
    """`Replay buffer: 1,000,000 transitions, 212 MB in memory, 205 MB on disk`; empty where there is none."""
    size = size_of(config, interface, world_size)
    if size is None:
        return ""
    whole_run = " (the whole run)" if size.transitions * world_size >= config.total_steps else ""
    frames = f" (frames stored once; {format_bytes(size.whole)} if they are no stacks)" if size.has_frames else ""
    disk = f"{format_bytes(size.disk)} on disk" if config.checkpoints.replay_buffer else "not saved"
    each = f", in each of {world_size} processes" if world_size > 1 else ""
    transitions = f"{size.transitions:,} transitions{whole_run}"
    return f"Replay buffer: {transitions}, {format_bytes(size.memory)} in memory{frames}, {disk}{each}"


def refuse_large_buffer(
    config: TrainConfig, interface: EnvInterface, local_ranks: int = 1, world_size: int = 1
) -> None:
    """`UsageError` with the numbers, when the buffers of this machine's processes do not fit into its memory."""
    size = size_of(config, interface, world_size)
    limit = memory_limit()
    if size is None or limit is None or size.memory * local_ranks <= MEMORY_SHARE * limit:
        return
    each = f" in each of {local_ranks} processes" if local_ranks > 1 else ""
    raise UsageError(
        f"The replay buffer would take {format_bytes(size.memory)}{each} ({size.transitions:,} transitions), and this "
        f"machine has {format_bytes(limit)} of memory.",
        _advice(config, size, MEMORY_SHARE * limit / local_ranks / size.memory),
    )


def refuse_full_disk(config: TrainConfig, interface: EnvInterface, runs_root: Path, world_size: int = 1) -> None:
    """`UsageError` with the numbers, when the saved buffers of all processes would not fit on the disk of the runs."""
    size = size_of(config, interface, world_size)
    if size is None or not config.checkpoints.replay_buffer:
        return
    place = next(path for path in (runs_root.absolute(), *runs_root.absolute().parents) if path.exists())
    free, needed = shutil.disk_usage(place).free, DISK_SHARE * size.disk * world_size
    if needed > free:
        raise UsageError(
            f"Saved with the checkpoints, the replay buffer takes {format_bytes(needed)}, and {place} has "
            f"{format_bytes(free)} free.",
            f"{_advice(config, size, free / needed)} Or do not save it: checkpoints.replay_buffer=false; a resume is "
            "then inexact.",
        )


def _advice(config: TrainConfig, size: ReplaySize, share: float) -> str:
    fits = int(size.transitions * share)
    digits = max(0, len(str(fits)) - 2)
    return f"Try {config.algorithm}.buffer_size={fits // 10**digits * 10**digits}."
