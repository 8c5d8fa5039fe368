"""Joining the group that the environment variables of torchrun, or of `--nproc`, describe."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from palaestra.contracts.errors import RunFailed, UsageError
from palaestra.contracts.later import later
from palaestra.training.graphics import is_surely_cpu
from palaestra.training.group import Group, PeerLost
from palaestra.training.place import LISTENING, MEMORY, Place, read_place
from palaestra.training.shared_memory_group import SharedMemoryGroup, map_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    import torch.distributed as dist
    from torch._C import _distributed_c10d as c10d

    from palaestra.config.distributed import DistributedConfig
    from palaestra.training import torch_group
else:
    torch = later("torch")
    dist = later("torch.distributed")
    c10d = later("torch._C._distributed_c10d")
    torch_group = later("palaestra.training.torch_group")


@contextmanager
def open_group(asked: DistributedConfig, device: str = "auto") -> Iterator[Group]:
    """The group of this process for the block's duration; it is closed in every case.

    At a good end all wait for each other; on an exception nobody waits, and the others are told why. `device`: where
    the networks are, as the configuration has it.
    """
    place = read_place(os.environ)
    if place is None or place.world_size == 1:
        if asked.backend == "nccl":
            choose_backend(asked.backend)  # refused here as it would be among several
        yield Group()
        return
    group = _join_in_memory(place, asked, device) or _join(place, choose_backend(asked.backend), asked.timeout_seconds)
    try:
        yield group
    except PeerLost:
        raise
    except BaseException as error:
        group.post_failure(str(error) or type(error).__name__)
        raise
    else:
        _leave_together(group)
    finally:
        group.close()


def choose_backend(asked: str) -> str:
    """Small tensors on the host always go over gloo; with CUDA, those on devices go over nccl."""
    has_cuda = torch.cuda.is_available() and dist.is_nccl_available()
    if asked == "nccl" and not has_cuda:
        raise UsageError(
            "distributed.backend=nccl needs CUDA, which torch does not find here.", "Set distributed.backend=gloo."
        )
    return "cpu:gloo,cuda:nccl" if has_cuda and asked != "gloo" else "gloo"


def _join_in_memory(place: Place, asked: DistributedConfig, device: str) -> Group | None:
    """Where whoever started the ranks gave them common memory, and every network is on the CPU; else None."""
    given = os.environ.get(MEMORY)
    if given is None or asked.backend != "auto" or not is_surely_cpu(device):
        return None
    try:
        memory = map_memory(int(given), place.rank, place.world_size, asked.timeout_seconds)
    except OSError as error:
        raise RunFailed(
            f"Rank {place.rank} of {place.world_size} cannot use the memory that the ranks share: {error.strerror}.",
            "Set distributed.backend=gloo to do without it.",
        ) from error
    return None if memory is None else SharedMemoryGroup(memory, place.rank, place.world_size)


def _join(place: Place, backend: str, timeout_seconds: float) -> torch_group.TorchGroup:
    if dist.is_initialized():
        raise UsageError(
            f"torch.distributed is open already, with {dist.get_world_size()} processes.",
            "Close it before training: torch.distributed.destroy_process_group()",
        )
    if "nccl" in backend:
        torch.cuda.set_device(place.local_rank)
    timeout = timedelta(seconds=timeout_seconds)
    try:
        store = _meet(place, timeout)
        dist.init_process_group(backend, store=store, rank=place.rank, world_size=place.world_size, timeout=timeout)
    except RuntimeError as error:
        raise RunFailed(
            f"Rank {place.rank} of {place.world_size} could not join the others at {place.address}:{place.port}: "
            f"{str(error).strip().partition(chr(10))[0]}",
            "Is the address right, the port free, and does every rank run?",
        ) from error
    return torch_group.TorchGroup(store, place.local_rank, timeout_seconds)


def _meet(place: Place, timeout: timedelta) -> c10d.Store:
    """The store through which processes find each other: rank 0 keeps it, unless torchrun does."""
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    is_keeper = place.rank == 0 and not by_agent
    listening = os.environ.get(LISTENING)
    store = c10d.TCPStore(
        place.address,
        place.port,
        place.world_size,
        is_keeper,
        timeout,
        wait_for_workers=False,
        multi_tenant=False,
        master_listen_fd=int(listening) if listening and is_keeper else None,
    )
    return c10d.PrefixStore(f"palaestra/{attempt}", store)


def _leave_together(group: Group) -> None:
    """Whoever keeps the store leaves last. What was trained is safe by now, so a peer that is gone changes nothing."""
    try:
        group.barrier()
    except PeerLost:
        return
