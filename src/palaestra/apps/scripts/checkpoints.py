"""Turns snapshots that a script's process wrote into checkpoints of the run."""

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


class CheckpointImporter:
    """Verifies snapshots, saves them as checkpoints, and deletes the snapshot files."""

    def __init__(self, session: RunSession, spec: LaunchSpec, metrics: ScriptMetrics) -> None:
        self._manager = CheckpointManager(session.directory, CheckpointConfig(keep=spec.keep))
        self._session = session
        self._spec = spec
        self._metrics = metrics
        self.versions: dict[str, str] = {}  # of the script's interpreter
        self.saved = max((one.epoch for one in self._manager.list_all_checkpoints()), default=0)
        self._failures = 0

    def commit(self, path: Path, step: int) -> Checkpoint | None:
        """Saves a snapshot as a checkpoint; None if that failed, which is recorded and does not stop the script."""
        started = self._session.seconds
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
            seconds=round(self._session.seconds - started, 4),
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
            avg_reward=self._metrics.average_return,
            seed=seed if isinstance(seed, int) and seed >= 0 else 0,
            metrics={"episodes": float(self._metrics.episodes)},
            git_commit=self._spec.commit,
            versions={"palaestra": version("palaestra"), **self.versions},
        )


METADATA_KEYS = ("script", "sha256", "source", "args", "classes")


def read_metadata(data: bytes, source: str = "this snapshot") -> dict[str, str]:
    """Metadata of a whole safetensors file, whose header is checked first."""
    read_header(data, len(data), source)
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    metadata = json.loads(data[LENGTH_BYTES : LENGTH_BYTES + length]).get("__metadata__", {})
    missing = [name for name in METADATA_KEYS if not isinstance(metadata.get(name), str)]
    if missing:
        raise DamagedFile(f"{source}: its metadata lacks {', '.join(missing)}.", "Was it saved by a run of a script?")
    if hashlib.sha256(metadata["source"].encode()).hexdigest() != metadata["sha256"]:
        raise DamagedFile(f"{source}: the SHA-256 of the script in it differs from the recorded one.")
    return {name: metadata[name] for name in METADATA_KEYS} | {"env_id": str(metadata.get("env_id", ""))}
