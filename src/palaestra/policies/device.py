"""Where the network lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.policies.base import Memory, Observation

CPU = torch.device("cpu")


def choose_device(requested: str, local_rank: int = 0) -> torch.device:
    """`auto`, `cpu` or `cuda`; of several GPUs of a machine each process takes the one of its local rank."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if requested == "cpu" or (requested == "auto" and count == 0):
        return CPU
    if count == 0:
        raise UsageError(
            f"device=cuda, but torch {torch.__version__} sees no CUDA device here.",
            "Use device=cpu, or install a torch with CUDA and look at nvidia-smi.",
        )
    if local_rank >= count:
        raise UsageError(
            f"This process has local rank {local_rank}, but there are only {count} CUDA devices.",
            f"Start at most {count} processes on this machine, or use device=cpu.",
        )
    return torch.device("cuda", local_rank)


def observation_to_device(observation: Observation, device: torch.device) -> Observation:
    """On the CPU the same tensors; to CUDA a copy that does not hold up this thread (the source is pinned)."""
    if isinstance(observation, Tensor):
        return observation.to(device, non_blocking=True)
    return {name: part.to(device, non_blocking=True) for name, part in observation.items()}


def memory_to_device(memory: Memory, device: torch.device) -> Memory:
    return {name: part.to(device) for name, part in memory.items()}
