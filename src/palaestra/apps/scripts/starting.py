"""Which checkpoint a script begins with: found and verified when it is asked for, handed over when it starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.checkpoints.names import model_name
from palaestra.checkpoints.reading import open_checkpoint
from palaestra.checkpoints.targets import find_target
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.scripts.order import LaunchOrder
    from palaestra.apps.scripts.script import Script
    from palaestra.checkpoints.reading import OpenedCheckpoint

START = "start.safetensors"


def pin_start(target: str, script: Script, runs_root: Path) -> str:
    """The sidecar of what `target` means now; refused where none of its networks could be of this script."""
    opened = find_target(target, runs_root).open()
    classes = opened.checkpoint.policy.get("classes")
    if not isinstance(classes, dict):
        raise UsageError(
            f"'{target}' was not saved by a script, so its weights have no place in one.",
            "Name a checkpoint of a run of the same script.",
        )
    if not set(classes.values()) & set(script.classes):
        saved = ", ".join(sorted(set(classes.values())))
        raise UsageError(
            f"'{target}' was saved by {opened.checkpoint.policy.get('script')} and holds {saved}; "
            f"{script.path.name} has no class of that name.",
            "Name a checkpoint of a run of the same script.",
        )
    return str(opened.checkpoint.path)


def hand_over(order: LaunchOrder) -> LaunchOrder:
    """The bytes that were verified, in a file of this run's own, so that retention elsewhere cannot take them away."""
    if not order.start_from:
        return order
    opened = _open(order)
    path = order.outbox / START
    path.write_bytes(opened.parts[model_name(opened.checkpoint.epoch)])
    digest = str(opened.checkpoint.files[model_name(opened.checkpoint.epoch)]["sha256"])
    return replace(
        order,
        started_from=f"{opened.checkpoint.run}:{opened.checkpoint.epoch}",
        start={"weights": str(path), "sha256": digest},
    )


def _open(order: LaunchOrder) -> OpenedCheckpoint:
    sidecar = Path(order.start_from)
    return open_checkpoint(sidecar.parent, sidecar)
