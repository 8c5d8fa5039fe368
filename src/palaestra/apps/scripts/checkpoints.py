"""Snapshots of a script's networks as checkpoints like any other: verified, described, durable, then removed there."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.files import model_name
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.safetensors_header import LENGTH_BYTES, read_header
from palaestra.checkpoints.store import PreparedSave
from palaestra.config.train import CheckpointConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import DamagedFile, PalaestraError

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.apps.scripts.launch import LaunchSpec
    from palaestra.apps.scripts.metrics import ScriptMetrics
    from palaestra.runner.session import RunSession


class SnapshotKeeper:
    def __init__(self, session: RunSession, order: LaunchSpec, ledger: ScriptMetrics) -> None:
        self._manager = CheckpointManager(session.directory, CheckpointConfig(keep=order.keep))
        self._session = session
        self._order = order
        self._ledger = ledger
        self.versions: dict[str, str] = {}  # of the script's interpreter
        self.saved = max((one.epoch for one in self._manager.list_all_checkpoints()), default=0)
        self._failures = 0

    def keep(self, path: Path, step: int) -> Checkpoint | None:
        """None when it could not be kept, which is told and does not stop the script."""
        began = self._session.seconds
        try:
            data = path.read_bytes()
            path.unlink()
            read_header(data, len(data), path.name)
            described = self._describe(data, step)
            prepared = PreparedSave(described, {model_name(described.epoch): data})
            saved = self._manager.commit(prepared)
        except (OSError, PalaestraError) as error:
            self._fail(str(error), step)
            return None
        self.saved, self._failures = saved.epoch, 0
        self._session.journal.record(
            "checkpoint.saved",
            epoch=saved.epoch,
            step=saved.agent_step,
            file=saved.path.name if saved.path else "",
            bytes=len(data),
            seconds=round(self._session.seconds - began, 4),
        )
        return saved

    def _fail(self, reason: str, step: int) -> None:
        self._failures += 1
        self._session.journal.record(
            "checkpoint.failed", epoch=self.saved + 1, step=step, error=reason, failures=self._failures
        )

    def _describe(self, data: bytes, step: int) -> Checkpoint:
        record = self._session.record
        metadata = read_metadata(data)
        arguments: dict[str, Any] = json.loads(metadata["args"])
        policy = {
            "script": metadata["script"],
            "sha256": metadata["sha256"],
            "classes": json.loads(metadata["classes"]),
            "kind": record.kind,
        }
        seed = arguments.get("seed")
        return Checkpoint(
            epoch=self.saved + 1,
            agent_step=max(0, step),
            total_time=self._session.seconds,
            run=record.id,
            run_name=record.name,
            saved_at=self._session.record.updated_at or record.created_at,
            policy=policy,
            env={"id": str(arguments.get("env_id") or metadata["env_id"])},
            interface={},
            avg_reward=self._ledger.average_return,
            seed=seed if isinstance(seed, int) and seed >= 0 else 0,
            metrics={"episodes": float(self._ledger.episodes)},
            git_commit=self._order.commit,
            versions={"palaestra": version("palaestra"), **self.versions},
        )


METADATA_KEYS = ("script", "sha256", "source", "args", "classes")


def read_metadata(data: bytes, source: str = "this snapshot") -> dict[str, str]:
    """Of the whole file; its bounds are checked before anything is read."""
    read_header(data, len(data), source)
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    metadata = json.loads(data[LENGTH_BYTES : LENGTH_BYTES + length]).get("__metadata__", {})
    missing = [name for name in METADATA_KEYS if not isinstance(metadata.get(name), str)]
    if missing:
        raise DamagedFile(f"{source}: it does not say its {', '.join(missing)}.", "Was it saved from a script's run?")
    if hashlib.sha256(metadata["source"].encode()).hexdigest() != metadata["sha256"]:
        raise DamagedFile(f"{source}: the script in it is not the one whose hash it names.")
    return {name: metadata[name] for name in METADATA_KEYS} | {"env_id": str(metadata.get("env_id", ""))}
