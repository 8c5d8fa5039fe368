"""A policy from a checkpoint that perhaps only the leader's machine has."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from palaestra.checkpoints.names import sidecar_name
from palaestra.core.lazy_import import lazy_import

if TYPE_CHECKING:
    from palaestra.algorithms.group import Group
    from palaestra.checkpoints import loaded, targets
    from palaestra.checkpoints.loaded import LoadedPolicy
else:
    loaded = lazy_import("palaestra.checkpoints.loaded")
    targets = lazy_import("palaestra.checkpoints.targets")


def load_shared_policy(target: str, runs_root: Path, group: Group) -> LoadedPolicy:
    """A collective: the leader finds and verifies the checkpoint, the others get its files and verify them too."""
    if group.world_size == 1:
        return loaded.load_policy(target, runs_root)
    if group.is_leader:
        found = targets.find_target(target, runs_root)
        opened = found.open()
        policy = loaded.policy_from(opened, trust_module=found.is_own)
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
        return loaded.load_policy(Path(folder) / sidecar_name(epoch), runs_root, trust_module=is_trusted)
