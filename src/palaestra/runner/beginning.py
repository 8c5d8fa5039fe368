"""Where a training begins: fresh, with the weights of another run's checkpoint, or where this run was left."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from palaestra.algorithms.group import ALONE
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.lazy_import import lazy_import
from palaestra.core.spaces import decode_interface
from palaestra.runner.shared_policy import load_shared_policy

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig
    from palaestra.policies import warm_start
    from palaestra.policies.warm_start import WarmStart
    from palaestra.runs.directory import RunDirectory
else:
    warm_start = lazy_import("palaestra.policies.warm_start")


def find_warm_start(config: TrainConfig, runs_root: Path, found: RunDirectory | None, group: Group) -> WarmStart | None:
    """A collective. None for a fresh start; a run that has a checkpoint of its own goes on from that."""
    own = _own_interface(found) if group.is_leader else b""
    told = group.broadcast_bytes(own)
    if told:
        return warm_start.WarmStart(decode_interface(json.loads(told)))
    return load_origin(config, runs_root, group)


def load_origin(config: TrainConfig, runs_root: Path, group: Group = ALONE) -> WarmStart | None:
    """A collective. What `initial_weights` names: RUN, RUN:best, RUN:10 or a path. None when it names nothing."""
    if config.initial_weights is None:
        return None
    loaded = load_shared_policy(config.initial_weights, runs_root, group)
    checkpoint = loaded.checkpoint
    return warm_start.WarmStart(
        interface=loaded.policy.interface,
        checkpoint=f"{checkpoint.run}:{checkpoint.epoch}",
        weights=loaded.policy.state_dict(),
        policy=str(checkpoint.policy.get("graph") or checkpoint.policy.get("module")).partition("\n")[0],
    )


def _own_interface(found: RunDirectory | None) -> bytes:
    """Of the newest checkpoint that the run has; empty when it has none."""
    saved = [] if found is None else CheckpointManager(found).list_all_checkpoints()
    return json.dumps(saved[-1].interface).encode() if saved else b""
