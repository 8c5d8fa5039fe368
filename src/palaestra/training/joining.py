"""Joining the group that the environment variables of torchrun, or of `--nproc`, describe."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from palaestra.contracts.errors import RunFailed, UsageError
from palaestra.training.group import Group, PeerLost
from palaestra.training.torch_group import TorchGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch._C._distributed_c10d import Store

    from palaestra.config.distributed import DistributedConfig

PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LISTENING = "PALAESTRA_STORE_FD"  # an open socket on MASTER_PORT, which nobody can take meanwhile


@dataclass(frozen=True)
class Place:
    """This process's place among those that train together."""

    rank: int
    local_rank: int
    world_size: int
    address: str
    port: int


def read_place(variables: Mapping[str, str]) -> Place | None:
    """None: alone. MASTER_* without the others is left over from something else and means nothing."""
    if not any(name in variables for name in PLACE[:3]):
        return None
    missing = [name for name in PLACE if not variables.get(name)]
    if missing:
        given = ", ".join(f"{name}={variables[name]}" for name in PLACE if variables.get(name))
        raise UsageError(
            f"{given} is set, but {', '.join(missing)} is not: it cannot be known who trains together.",
            "Start with torchrun or with --nproc, which set all of them; or unset them to train alone.",
        )
    rank, local_rank, world_size, port = (
        _number(variables, name) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT")
    )
    if not (0 <= rank < world_size and local_rank <= rank):
        raise UsageError(
            f"RANK={rank}, LOCAL_RANK={local_rank} and WORLD_SIZE={world_size} do not fit together.",
            "Ranks are counted from 0, and there are WORLD_SIZE of them.",
        )
    return Place(rank, local_rank, world_size, variables["MASTER_ADDR"], port)


@contextmanager
def open_group(asked: DistributedConfig) -> Iterator[Group]:
    """The group of this process for the block's duration; it is closed in every case.

    At a good end all wait for each other; on an exception nobody waits, and the others are told why.
    """
    place = read_place(os.environ)
    backend = choose_backend(asked.backend)
    if place is None or place.world_size == 1:
        yield Group()
        return
    group = _join(place, backend, asked.timeout_seconds)
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
        dist.destroy_process_group()


def choose_backend(asked: str) -> str:
    """Small tensors on the host always go over gloo; with CUDA, those on devices go over nccl."""
    has_cuda = torch.cuda.is_available() and dist.is_nccl_available()
    if asked == "nccl" and not has_cuda:
        raise UsageError(
            "distributed.backend=nccl needs CUDA, which torch does not find here.", "Set distributed.backend=gloo."
        )
    return "cpu:gloo,cuda:nccl" if has_cuda and asked != "gloo" else "gloo"


def _join(place: Place, backend: str, timeout_seconds: float) -> TorchGroup:
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
    return TorchGroup(store, place.local_rank, timeout_seconds)


def _meet(place: Place, timeout: timedelta) -> Store:
    """The store through which processes find each other: rank 0 keeps it, unless torchrun does."""
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    is_keeper = place.rank == 0 and not by_agent
    listening = os.environ.get(LISTENING)
    store = TCPStore(
        place.address,
        place.port,
        place.world_size,
        is_keeper,
        timeout,
        wait_for_workers=False,
        multi_tenant=False,
        master_listen_fd=int(listening) if listening and is_keeper else None,
    )
    return PrefixStore(f"palaestra/{attempt}", store)


def _leave_together(group: Group) -> None:
    """Whoever keeps the store leaves last. What was trained is safe by now, so a peer that is gone changes nothing."""
    try:
        group.barrier()
    except PeerLost:
        return


def free_port() -> socket.socket:
    """A socket that listens on a free port of this machine; give it away open, and no one can take the port."""
    listening = socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET)
    listening.bind(("", 0))
    listening.listen(128)
    return listening


def _number(variables: Mapping[str, str], name: str) -> int:
    try:
        return int(variables[name])
    except ValueError:
        raise UsageError(f"{name}='{variables[name]}' is not a whole number.") from None
