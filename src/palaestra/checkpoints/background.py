"""Saving while training goes on: the values of the moment of asking, one save at a time, never a queue."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from palaestra.checkpoints.manager import CheckpointManager
    from palaestra.contracts.checkpoint import Checkpoint


class BackgroundSaver:
    """At most one save is under way and holds memory; what is asked meanwhile is skipped and counted."""

    def __init__(self, manager: CheckpointManager) -> None:
        self.skipped = 0
        self._manager = manager
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[Checkpoint] | None = None

    def save(self, policy: nn.Module, checkpoint: Checkpoint, trainer_state: Mapping[str, Any] | None = None) -> bool:
        """False when the last save is not done yet. Raises what the last one failed with."""
        if self._pending is not None and not self._pending.done():
            self.skipped += 1
            return False
        self.wait()
        prepared = self._manager.prepare(policy, checkpoint, trainer_state)
        self._pending = self._executor.submit(self._manager.commit, prepared)
        return True

    def wait(self) -> Checkpoint | None:
        """The save under way, once it is durable; None when there is none."""
        pending, self._pending = self._pending, None
        return pending.result() if pending is not None else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            self.wait()
        finally:
            self._executor.shutdown()
