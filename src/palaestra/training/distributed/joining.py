"""Joining the group that the environment variables of torchrun, or of `--nproc`, describe."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from palaestra.algorithms.group import Group, PeerLost
from palaestra.core.errors import PalaestraError, RunFailed, UsageError
from palaestra.core.lazy_import import lazy_import
from palaestra.training.distributed.addresses import (
    LOOPBACK,
    Endpoint,
    endpoint_of,
    endpoint_on,
    find_endpoint,
    is_loopback,
    requested_interface,
    source_address,
)
from palaestra.training.distributed.heartbeat import Heartbeat
from palaestra.training.distributed.peer_watch import describe_process, machine_of
from palaestra.training.distributed.rank_info import MEMORY, RankInfo, read_rank_info
from palaestra.training.distributed.rendezvous import Member, Rendezvous
from palaestra.training.distributed.shared_memory_group import SharedMemoryGroup, map_memory
from palaestra.training.machine import is_surely_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch
    import torch.distributed as dist

    from palaestra.config.distributed import DistributedConfig
    from palaestra.training.distributed import torch_group
else:
    torch = lazy_import("torch")
    dist = lazy_import("torch.distributed")
    torch_group = lazy_import("palaestra.training.distributed.torch_group")

EXPLAIN_SECONDS = 3.0  # for the heartbeat to tell why a collective failed


@contextmanager
def open_group(
    config: DistributedConfig, device: str = "auto", end_process: Callable[[PeerLost], object] | None = None
) -> Iterator[Group]:
    """The group of this process for the block's duration; it is closed in every case.

    On success all ranks wait for each other; on an exception none waits, and the others receive the cause. `device`:
    the configured device of the networks. `end_process` is called, by a thread, when another rank is lost
    and this one does not leave the block in time.
    """
    rank_info = read_rank_info(os.environ)
    if rank_info is None or rank_info.world_size == 1:
        if config.backend == "nccl":
            choose_backend(config.backend)  # refused here as it would be among several
        yield Group()
        return
    group = _join_in_memory(rank_info, config, device) or _join(rank_info, config, end_process or _end_process)
    try:
        yield group
    except PeerLost:
        raise
    except BaseException as error:
        group.post_failure(str(error) or type(error).__name__)
        _mark_posted(error)
        raise
    else:
        _leave_together(group)
    finally:
        group.close()


def choose_backend(requested: str) -> str:
    """Small tensors on the host always go over gloo; with CUDA, those on devices go over nccl."""
    has_cuda = torch.cuda.is_available() and dist.is_nccl_available()
    if requested == "nccl" and not has_cuda:
        raise UsageError(
            "distributed.backend=nccl needs CUDA, which torch does not find here.", "Set distributed.backend=gloo."
        )
    return "cpu:gloo,cuda:nccl" if has_cuda and requested != "gloo" else "gloo"


def _join_in_memory(rank_info: RankInfo, config: DistributedConfig, device: str) -> Group | None:
    """If the launcher gave the ranks shared memory and every network is on the CPU; else None."""
    given = os.environ.get(MEMORY)
    if given is None or config.backend != "auto" or not is_surely_cpu(device):
        return None
    try:
        memory = map_memory(int(given), rank_info.rank, rank_info.world_size, config.timeout_seconds)
    except OSError as error:
        raise RunFailed(
            f"{rank_info} cannot use the memory that the ranks share: {error.strerror}.",
            "Set distributed.backend=gloo to do without it.",
        ) from error
    return None if memory is None else SharedMemoryGroup(memory, rank_info.rank, rank_info.world_size)


@dataclass(frozen=True)
class Settings:
    """Of rank 0, for all ranks: a rank that resumes does not know the run's own settings yet."""

    backend: str
    timeout_seconds: float
    peer_timeout_seconds: float


def _join(
    rank_info: RankInfo, config: DistributedConfig, end_process: Callable[[PeerLost], object]
) -> torch_group.TorchGroup:
    if dist.is_initialized():
        raise UsageError(
            f"torch.distributed is open already, with {dist.get_world_size()} processes.",
            "Close it before training: torch.distributed.destroy_process_group()",
        )
    backend = choose_backend(config.backend) if rank_info.rank == 0 else ""  # the others take that of rank 0
    interface, origin = requested_interface(config.interface)
    chosen = endpoint_on(interface, origin, rank_info.address) if interface else None
    rendezvous = Rendezvous(rank_info, config.timeout_seconds)
    own = Member(
        rank=rank_info.rank,
        host=socket.gethostname(),
        address=chosen.address if chosen else source_address(rank_info.address),
        process=describe_process(),
    )
    heartbeat, settings = _start_heartbeat(
        rank_info, Settings(backend, config.timeout_seconds, config.peer_timeout_seconds), rendezvous, own
    )
    heartbeat.on_deadline = lambda cause: end_process(PeerLost(cause))
    try:
        members = [rendezvous.member(rank, heartbeat.cause) for rank in range(rank_info.world_size)]
        endpoint = _choose_endpoint(chosen, own, members, heartbeat)
        connections = _open(rank_info, settings, rendezvous, endpoint, heartbeat)
    except BaseException as error:
        if not isinstance(error, PeerLost):
            heartbeat.report_failure(str(error) or type(error).__name__)
            _mark_posted(error)
        heartbeat.close()
        raise
    processes = {member.rank: member.process for member in members}
    return torch_group.TorchGroup(rank_info.local_rank, settings.timeout_seconds, heartbeat, connections, processes)


def _start_heartbeat(
    rank_info: RankInfo, settings: Settings, rendezvous: Rendezvous, own: Member
) -> tuple[Heartbeat, Settings]:
    """Before all ranks have come, so that one that ends while the others wait is noticed as well."""
    if rank_info.rank == 0:
        heartbeat = Heartbeat(0, secrets.token_hex(16), settings.peer_timeout_seconds)
        is_local_name = is_loopback(own.address) and not is_loopback(rank_info.address)  # others see another address
        port = heartbeat.listen("" if is_local_name else own.address)
        rendezvous.post(replace(own, port=port, token=heartbeat.token, settings=asdict(settings)))
        return heartbeat, settings
    leader = rendezvous.member(0)
    settings = Settings(**leader.settings)
    heartbeat = Heartbeat(rank_info.rank, leader.token, settings.peer_timeout_seconds)
    is_here = machine_of(leader.process) == machine_of(own.process) != ""
    address = leader.address if leader.address and (is_here or not is_loopback(leader.address)) else rank_info.address
    try:
        heartbeat.connect(address, leader.port, settings.peer_timeout_seconds)
    except OSError as error:
        raise RunFailed(
            f"{rank_info} on {own.host} found rank 0 on {leader.host} at "
            f"{rank_info.address}:{rank_info.port}, but could not connect to {address}:{leader.port} from "
            f"{endpoint_of(own.address)}: {error.strerror or error}.",
            "Does a firewall close ports between the machines? Ranks use MASTER_PORT and ports chosen by the system.",
        ) from error
    rendezvous.post(own)
    return heartbeat, settings


def _choose_endpoint(chosen: Endpoint | None, own: Member, members: list[Member], heartbeat: Heartbeat) -> Endpoint:
    """Loopback where all ranks are on one machine, the user's choice, or the way to the others."""
    machine = machine_of(own.process)
    elsewhere = [member for member in members if machine_of(member.process) != machine or not machine]
    if elsewhere:
        heartbeat.hosts = {member.rank: member.host for member in members}
    if chosen is not None:
        return chosen
    return find_endpoint(own.address, [each.address for each in elsewhere]) if elsewhere else endpoint_of(LOOPBACK)


def _open(
    rank_info: RankInfo, settings: Settings, rendezvous: Rendezvous, endpoint: Endpoint, heartbeat: Heartbeat
) -> torch_group.ProcessGroupConnections:
    if "nccl" in settings.backend:
        choose_backend("nccl")  # refused where this machine has no CUDA
        torch.cuda.set_device(rank_info.local_rank)
    timeout = timedelta(seconds=settings.timeout_seconds)
    try:
        return torch_group.open_process_group(
            settings.backend, rendezvous.store, rank_info.rank, rank_info.world_size, timeout, endpoint
        )
    except RuntimeError as error:
        if cause := heartbeat.cause(EXPLAIN_SECONDS):
            raise PeerLost(cause) from error
        raise RunFailed(
            f"{rank_info} on {socket.gethostname()} could not join the others: it met them "
            f"at {rank_info.address}:{rank_info.port}, then connected from {endpoint}: "
            f"{str(error).strip().partition(chr(10))[0]}",
            "Is this the right network? Choose another with distributed.interface=NAME; 'ip address' lists them.",
        ) from error


def _end_process(lost: PeerLost) -> None:
    print(f"palaestra: {lost}", file=sys.stderr, flush=True)
    os._exit(lost.exit_code)


def _mark_posted(error: BaseException) -> None:
    if isinstance(error, PalaestraError):
        error.is_posted = True


def _leave_together(group: Group) -> None:
    """Whoever keeps the store leaves last. What was trained is safe by now, so a peer that is gone changes nothing."""
    try:
        group.barrier()
    except PeerLost:
        return
