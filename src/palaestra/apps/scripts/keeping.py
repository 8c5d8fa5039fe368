"""Snapshots of a script's networks as checkpoints like any other: verified, described, durable, then removed there."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from palaestra.apps.scripts.notes import read_notes
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.names import model_name
from palaestra.checkpoints.safetensors_header import read_header
from palaestra.checkpoints.store import PreparedSave
from palaestra.config.train import CheckpointConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import PalaestraError

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.apps.scripts.ledger import Ledger
    from palaestra.apps.scripts.order import LaunchOrder
    from palaestra.runner.session import RunSession


class Keeper:
    def __init__(self, session: RunSession, order: LaunchOrder, ledger: Ledger) -> None:
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
        notes = read_notes(data)
        arguments: dict[str, Any] = json.loads(notes["args"])
        policy = {
            "script": notes["script"],
            "sha256": notes["sha256"],
            "classes": json.loads(notes["classes"]),
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
            env={"id": str(arguments.get("env_id") or notes["env_id"])},
            interface={},
            avg_reward=self._ledger.average_return,
            seed=seed if isinstance(seed, int) and seed >= 0 else 0,
            metrics={"episodes": float(self._ledger.episodes)},
            git_commit=self._order.commit,
            versions={"palaestra": version("palaestra"), **self.versions},
        )
