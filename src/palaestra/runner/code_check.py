"""Ranks with different code would compute different gradients; they are refused by machine and file."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import UsageError
from palaestra.runs.code_identity import (
    CodeIdentity,
    code_identity,
    differences,
    module_files,
    package_files,
    version_differences,
)
from palaestra.training.distributed.shared_memory_group import SharedMemoryGroup

if TYPE_CHECKING:
    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig

SHOWN_FILES = 5


@dataclass(frozen=True)
class CodeDifference:
    """Of one rank against rank 0."""

    rank: int
    host: str
    files: list[str]  # of Palaestra and of the user's modules, and packages with other versions

    def __str__(self) -> str:
        shown = ", ".join(self.files[:SHOWN_FILES])
        hidden = len(self.files) - SHOWN_FILES
        return f"Rank {self.rank} on {self.host} has other code than rank 0: {shown}" + (
            f" and {hidden} more" if hidden > 0 else ""
        )


def demand_same_code(config: TrainConfig, group: Group) -> list[CodeDifference]:
    """A collective. Raises on the leader; with `distributed.allow_different_code` it gets the differences instead."""
    if group.world_size == 1 or isinstance(group, SharedMemoryGroup):  # one launcher started all with its own code
        return []
    modules = imported_modules(config)
    own = {"host": socket.gethostname(), "identity": asdict(code_identity(modules))}
    ranks = [json.loads(text) for text in group.gather_bytes(json.dumps(own).encode())]
    is_different = any(each["identity"] != ranks[0]["identity"] for each in ranks)
    (has_difference,) = group.agree(int(is_different))
    if not has_difference:
        return []
    files = {**package_files(), **module_files(modules)}
    listed = [json.loads(text) for text in group.gather_bytes(json.dumps(files).encode())]
    found = [_compare(rank, ranks, listed) for rank in range(1, len(ranks))]
    found = [each for each in found if each.files]
    is_allowed = config.distributed.allow_different_code or config.cluster.allow_different_code
    if found and not is_allowed:
        raise UsageError(
            f"{found[0]}.",
            "Install the same code on every machine, or accept the difference: distributed.allow_different_code=true",
        )
    return found


def imported_modules(config: TrainConfig) -> list[str]:
    """Modules of the user that the environment and the policy name: `my_envs` of `env.id=my_envs:Maze-v0`."""
    named = [config.env.id, config.policy.module]
    return sorted({text.partition(":")[0] for text in named if text and ":" in text})


def _compare(rank: int, ranks: list[dict[str, Any]], listed: list[dict[str, str]]) -> CodeDifference:
    leader, other = (CodeIdentity(**each["identity"]) for each in (ranks[0], ranks[rank]))
    versions = [text.replace("(here ", "(rank 0: ") for text in version_differences(leader, other)]
    return CodeDifference(rank, ranks[rank]["host"], versions + differences(listed[0], listed[rank]))
