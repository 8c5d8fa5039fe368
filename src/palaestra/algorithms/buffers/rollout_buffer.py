"""The arrays that a rollout is written into, allocated once and used for every iteration."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms.buffers.finite import refuse_non_finite
from palaestra.algorithms.serialization import as_tensor
from palaestra.core.lazy_import import lazy_import
from palaestra.core.spaces import BoxSpec, DictSpec, SpaceSpec
from palaestra.policies.observations import storage_dtype

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from palaestra.envs.vector.in_process import Arrays
    from palaestra.policies.base import Observation
else:
    torch = lazy_import("torch")


class RolloutBuffer:
    """Row 0 is the observation to act on next; environments write row t + 1 while the policy reads row t.

    Rows and their tensors are made once as views of one block, because indexing a tensor at every step costs as much
    as a small layer of a network. For a network on CUDA the blocks are pinned, so that copies are asynchronous.
    """

    def __init__(self, space: SpaceSpec, horizon: int, env_count: int, device: torch.device | None = None) -> None:
        """`device`: of the network that reads; None: the CPU"""
        self.space = space
        self._device = device
        self.horizon = horizon
        shape = (horizon + 1, env_count)
        self.blocks = {
            name: _block((*shape, *shape_of(part)), storage_dtype(part), device) for name, part in parts_of(space)
        }
        self.starts = _block(shape, np.dtype(bool), device)
        self.starts[:] = True
        self.rewards = _block((horizon, env_count), np.dtype(np.float32), device)
        self.terminated = _block((horizon, env_count), np.dtype(bool), device)
        self.rows: list[Arrays] = [self._row(step) for step in range(horizon + 1)]  # each [B, …]
        self._ends = [(block[0], block[-1]) for block in (*self.blocks.values(), self.starts)]

    @property
    def is_on_cpu(self) -> bool:
        return self._device is None or self._device.type == "cpu"

    @cached_property
    def device(self) -> torch.device:
        return self._device or torch.device("cpu")

    @cached_property
    def inputs(self) -> list[Observation]:
        """Each [1, B, …]. The native engine does not use them, so that it does not need torch."""
        return [self._tensors(step, step + 1) for step in range(self.horizon + 1)]

    @cached_property
    def start_inputs(self) -> tuple[Tensor, ...]:
        """Each [1, B]."""
        return torch.split(torch.from_numpy(self.starts), 1)

    @property
    def observations(self) -> Observation:
        """[T, B, …]"""
        return self._tensors(0, self.horizon)

    def rewind(self) -> None:
        """Copy the last row to the first, so that the next rollout continues from there."""
        for first, last in self._ends:
            np.copyto(first, last)

    def refuse_non_finite(self) -> None:
        """One check per iteration."""
        refuse_non_finite(self.blocks, self.rewards, "rollout")

    def capture(self) -> dict[str, Any]:
        blocks = {name: as_tensor(block[0].copy()) for name, block in self.blocks.items()}
        return {"observation": blocks, "starts": as_tensor(self.starts[0].copy())}

    def restore(self, state: dict[str, Any]) -> None:
        for name, block in self.blocks.items():
            block[0] = state["observation"][name].numpy()
        self.starts[0] = state["starts"].numpy()

    def _row(self, step: int) -> Arrays:
        if isinstance(self.space, DictSpec):
            return {name: block[step] for name, block in self.blocks.items()}
        row: np.ndarray = self.blocks[""][step]
        return row

    def _tensors(self, first: int, last: int) -> Observation:
        if isinstance(self.space, DictSpec):
            return {name: torch.from_numpy(block[first:last]) for name, block in self.blocks.items()}
        return torch.from_numpy(self.blocks[""][first:last])


def stack_observations(space: SpaceSpec, observations: list[Any]) -> Observation:
    """Single observations, as environments give them, side by side: [1, K, …]."""
    stacked: dict[str, Tensor] = {}
    for name, part in parts_of(space):
        rows = [observation[name] if name else observation for observation in observations]
        stacked[name] = torch.from_numpy(np.stack(rows).astype(storage_dtype(part)))[None]
    return stacked if isinstance(space, DictSpec) else stacked[""]


def _block(shape: tuple[int, ...], dtype: np.dtype[Any], device: torch.device | None) -> np.ndarray:
    """Zeros; page-locked when they are to be copied to CUDA."""
    zeros = np.zeros(shape, dtype)
    if device is None or device.type != "cuda":
        return zeros
    pinned: np.ndarray = torch.from_numpy(zeros).pin_memory().numpy()
    return pinned


def parts_of(space: SpaceSpec) -> tuple[tuple[str, SpaceSpec], ...]:
    return space.parts if isinstance(space, DictSpec) else (("", space),)


def shape_of(space: SpaceSpec) -> tuple[int, ...]:
    if isinstance(space, BoxSpec):
        return space.shape
    return () if not hasattr(space, "counts") else (len(space.counts),)
