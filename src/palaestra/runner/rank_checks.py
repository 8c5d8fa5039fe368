"""What all ranks must agree on: their configuration, and their code, which decides the gradients."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.runs.documents import diff_configs, format_differences
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


logger = logging.getLogger(__name__)

PER_MACHINE = {"distributed.interface"}  # settings in which ranks may differ


@dataclass(frozen=True)
class RankCodeDifference:
    """What one rank has that differs from rank 0."""

    rank: int
    host: str
    files: list[str]  # of Palaestra and of the user's modules, and packages with different versions

    def __str__(self) -> str:
        return f"Rank {self.rank} on {self.host} has different code than rank 0: {shorten(self.files)}"


def require_one_config(config: TrainConfig, group: Group, overrides: Mapping[str, Any] | None = None) -> None:
    """Compares the configuration of all ranks (a collective); raises on every rank with a different one.

    `overrides`: of a rank that takes all other settings from the leader; only these are compared.
    """
    if group.world_size == 1:
        return
    own = config.model_dump(mode="json") if overrides is None else _only(config.model_dump(mode="json"), overrides)
    ranks = [json.loads(text) for text in group.gather_bytes(json.dumps([own, overrides], default=str).encode())]
    for rank, (settings, overridden) in enumerate(ranks):
        leader = ranks[0][0] if overridden is None else _only(ranks[0][0], overridden)
        differences = [each for each in diff_configs(leader, settings) if each.key_path not in PER_MACHINE]
        if differences:
            raise UsageError(
                f"Rank {rank} has a different configuration than rank 0:\n{format_differences(differences)}\n",
                "Start every rank with the same command.",
            )


def share_config(config: TrainConfig, group: Group) -> TrainConfig:
    """The leader's configuration for all ranks (a collective), except for settings that belong to one machine."""
    if group.world_size == 1:
        return config
    shared = TrainConfig.model_validate(
        json.loads(group.broadcast_bytes(json.dumps(config.model_dump(mode="json")).encode()))
    )
    distributed = shared.distributed.model_copy(update={"interface": config.distributed.interface})
    return shared.model_copy(update={"distributed": distributed})


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
    """`distributed.allow_different_code`; the key of evaluations and trials is accepted with a note in this version."""
    if config.cluster.allow_different_code and not config.distributed.allow_different_code:
        logger.warning(
            "For the ranks of a training, cluster.allow_different_code is called distributed.allow_different_code; "
            "it is accepted in this version."
        )
        return True
    return config.distributed.allow_different_code


def imported_modules(config: TrainConfig) -> list[str]:
    """Modules of the user that the environment and the policy name: `my_envs` of `env.id=my_envs:Maze-v0`."""
    named = [config.env.id, config.policy.module]
    return sorted({text.partition(":")[0] for text in named if text and ":" in text})


def _describe(differences: CodeDifferences) -> list[str]:
    return [text.replace("(here ", "(rank 0: ") for text in describe_differences(differences)]


def _only(settings: dict[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The part of nested settings that `wanted` names."""
    return {
        key: _only(settings[key], value)
        if isinstance(value, Mapping) and isinstance(settings[key], dict)
        else settings[key]
        for key, value in wanted.items()
        if key in settings
    }
