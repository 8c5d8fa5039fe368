"""A process's place among those that train together, as torchrun and `--nproc` put it into the environment."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LISTENING = "PALAESTRA_STORE_FD"  # an open socket on MASTER_PORT, so that the port stays taken
MEMORY = "PALAESTRA_MEMORY_FD"  # an open file for all ranks of one machine to share, see shared_memory_group


@dataclass(frozen=True)
class RankInfo:
    rank: int
    local_rank: int
    world_size: int
    address: str
    port: int

    def __str__(self) -> str:
        return f"Rank {self.rank} of {self.world_size}"


def read_rank_info(variables: Mapping[str, str]) -> RankInfo | None:
    """None: alone. MASTER_* without the others is left over from something else and means nothing."""
    if not any(name in variables for name in NAMES[:3]):
        return None
    missing = [name for name in NAMES if not variables.get(name)]
    if missing:
        given = ", ".join(f"{name}={variables[name]}" for name in NAMES if variables.get(name))
        raise UsageError(
            f"{given or 'An empty rank'} is set, but {', '.join(missing)} is not: who trains together is unknown.",
            "Start with torchrun or with --nproc, which set all of them; or unset them to train alone.",
        )
    rank, local_rank, world_size, port = (
        _number(variables, name) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT")
    )
    if not (0 <= rank < world_size and 0 <= local_rank <= rank):
        raise UsageError(
            f"RANK={rank}, LOCAL_RANK={local_rank} and WORLD_SIZE={world_size} do not fit together.",
            "Ranks are counted from 0, and there are WORLD_SIZE of them.",
        )
    return RankInfo(rank, local_rank, world_size, variables["MASTER_ADDR"], port)


def is_follower(variables: Mapping[str, str]) -> bool:
    """One of several ranks, and not the leader."""
    place = read_rank_info(variables)
    return place is not None and place.rank > 0


def elastic_restarts(variables: Mapping[str, str]) -> int:
    """How often torchrun has started the ranks again (`--max-restarts`); 0 elsewhere."""
    count = variables.get("TORCHELASTIC_RESTART_COUNT", "0")
    return int(count) if count.isdecimal() else 0


def open_memory_file() -> int:
    """The descriptor of an empty file in memory, or on disk where the system has no other; it has no name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("palaestra-ranks")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _number(variables: Mapping[str, str], name: str) -> int:
    try:
        return int(variables[name])
    except ValueError:
        raise UsageError(f"{name}='{variables[name]}' is not a whole number.") from None
