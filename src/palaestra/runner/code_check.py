"""Refuses ranks with different code, which would compute different gradients; names machine and files."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from palaestra.core.errors import UsageError
from palaestra.runs.environment import (
    CodeDifferences,
    CodeIdentity,
    code_identity,
    compare_code,
    describe_differences,
    shorten,
)
from palaestra.training.distributed.shared_memory_group import SharedMemoryGroup

if TYPE_CHECKING:
    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig


@dataclass(frozen=True)
class RankCodeDifference:
    """What one rank has that differs from rank 0."""

    rank: int
    host: str
    files: list[str]  # of Palaestra and of the user's modules, and packages with different versions

    def __str__(self) -> str:
        return f"Rank {self.rank} on {self.host} has different code than rank 0: {shorten(self.files)}"


def require_same_code(config: TrainConfig, group: Group) -> list[RankCodeDifference]:
    """Compares the code of all ranks (a collective). Raises on the leader, or returns accepted differences."""
    if group.world_size == 1 or isinstance(group, SharedMemoryGroup):  # one launcher started all with its own code
        return []
    own = {"host": socket.gethostname(), "identity": asdict(code_identity(imported_modules(config)))}
    ranks = [json.loads(text) for text in group.gather_bytes(json.dumps(own).encode())]
    is_different = any(each["identity"] != ranks[0]["identity"] for each in ranks)
    (has_difference,) = group.max_over_ranks(int(is_different))
    if not has_difference:
        return []
    own_differences = compare_code(CodeIdentity(**ranks[0]["identity"]))
    fields = None if own_differences is None else asdict(own_differences)
    gathered = [json.loads(text) for text in group.gather_bytes(json.dumps(fields).encode())]
    found = [
        RankCodeDifference(rank, ranks[rank]["host"], _describe(CodeDifferences(**fields)))
        for rank, fields in enumerate(gathered)
        if rank and fields is not None
    ]
    if found and not accepts_different_ranks(config):
        raise UsageError(
            f"{found[0]}.",
            "Install the same code on every machine, or accept the difference: distributed.allow_different_code=true",
        )
    return found


def accepts_different_ranks(config: TrainConfig) -> bool:
    """`distributed.allow_different_code`; `cluster.allow_different_code` also accepts ranks, as in version 0.1."""
    return config.distributed.allow_different_code or config.cluster.allow_different_code


def imported_modules(config: TrainConfig) -> list[str]:
    """Modules of the user that the environment and the policy name: `my_envs` of `env.id=my_envs:Maze-v0`."""
    named = [config.env.id, config.policy.module]
    return sorted({text.partition(":")[0] for text in named if text and ":" in text})


def _describe(differences: CodeDifferences) -> list[str]:
    return [text.replace("(here ", "(rank 0: ") for text in describe_differences(differences)]
