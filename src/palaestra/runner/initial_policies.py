"""Policies that a training starts with: the weights of a warm start and the teacher of a kickstart.

Only the leader's machine needs the checkpoint; the other ranks get its files.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from palaestra.algorithms.group import ALONE
from palaestra.checkpoints.files import sidecar_name
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.lazy_import import lazy_import
from palaestra.core.spaces import decode_interface

if TYPE_CHECKING:
    from palaestra.algorithms.group import Group
    from palaestra.checkpoints import loading, targets
    from palaestra.checkpoints.loading import LoadedPolicy
    from palaestra.config.train import TrainConfig
    from palaestra.policies import warm_start
    from palaestra.policies.agent import Agent
    from palaestra.policies.warm_start import WarmStart
    from palaestra.runs.directory import RunDirectory
else:
    loading = lazy_import("palaestra.checkpoints.loading")
    targets = lazy_import("palaestra.checkpoints.targets")
    warm_start = lazy_import("palaestra.policies.warm_start")


def load_shared_policy(target: str, runs_root: Path, group: Group) -> LoadedPolicy:
    """A collective: the leader finds and verifies the checkpoint; the others receive its files and verify them too."""
    if group.world_size == 1:
        return loading.load_policy(target, runs_root)
    if group.is_leader:
        found = targets.find_target(target, runs_root)
        opened = found.open()
        policy = loading.load_opened_policy(opened, trust_module=found.is_own)
        path = opened.checkpoint.path
        assert path is not None, "it was just read from there"
        epoch = opened.checkpoint.epoch
        files = {sidecar_name(epoch): (path.parent / sidecar_name(epoch)).read_bytes(), **opened.parts}
        group.broadcast_bytes(json.dumps([epoch, found.is_own, list(files)]).encode())
        for content in files.values():
            group.broadcast_bytes(content)
        return policy
    epoch, is_trusted, names = json.loads(group.broadcast_bytes(b""))
    with TemporaryDirectory(prefix="palaestra-policy-") as folder:
        for name in names:
            (Path(folder) / Path(name).name).write_bytes(group.broadcast_bytes(b""))
        return loading.load_policy(Path(folder) / sidecar_name(epoch), runs_root, trust_module=is_trusted)


def load_teacher(config: TrainConfig, runs_root: Path, group: Group = ALONE) -> Agent | None:
    """A collective. The policy that `ppo.kickstart.teacher` names (RUN, RUN:best, RUN:10 or a path); None for none."""
    target = config.ppo.kickstart.teacher
    return None if target is None else load_shared_policy(target, runs_root, group).policy


def find_warm_start(config: TrainConfig, runs_root: Path, found: RunDirectory | None, group: Group) -> WarmStart | None:
    """A collective. None for a fresh start; a run that has a checkpoint of its own continues from that."""
    own = _own_interface(found) if group.is_leader else b""
    interface = group.broadcast_bytes(own)
    if interface:
        return warm_start.WarmStart(decode_interface(json.loads(interface)))
    return load_warm_start(config, runs_root, group)


def load_warm_start(config: TrainConfig, runs_root: Path, group: Group = ALONE) -> WarmStart | None:
    """A collective. The weights that `initial_weights` names (RUN, RUN:best, RUN:10 or a path); None for none."""
    if config.initial_weights is None:
        return None
    source = load_shared_policy(config.initial_weights, runs_root, group)
    checkpoint = source.checkpoint
    return warm_start.WarmStart(
        interface=source.policy.interface,
        checkpoint=f"{checkpoint.run}:{checkpoint.epoch}",
        weights=source.policy.state_dict(),
        policy=str(checkpoint.policy.get("graph") or checkpoint.policy.get("module")).partition("\n")[0],
    )


def _own_interface(found: RunDirectory | None) -> bytes:
    """The interface in the newest checkpoint of the run, as JSON; empty when it has none."""
    saved = [] if found is None else CheckpointManager(found).list_all_checkpoints()
    return json.dumps(saved[-1].interface).encode() if saved else b""
