"""Checkpoints for a program of one's own: save an agent, list what is there, find the best, load it.

    manager = CheckpointManager("runs/mine")
    manager.save_agent(net, epoch=10, metadata={"score": 0.85})
    net = manager.load_agent("best", into=Net())

It writes and reads the same files as a training does, so that `palaestra checkpoints` and the page see them too.
"""

from __future__ import annotations

import logging
import time
from dataclasses import fields, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints import durable
from palaestra.checkpoints.store import FIXED_FIELDS, CheckpointStore
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import NotFound, UsageError, did_you_mean
from palaestra.core.lazy_import import lazy_import
from palaestra.runs.directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

    from palaestra.checkpoints import loading
    from palaestra.checkpoints.files import FileSystem
    from palaestra.checkpoints.loading import LoadedPolicy
    from palaestra.config.train import CheckpointConfig
else:
    loading = lazy_import("palaestra.checkpoints.loading")

logger = logging.getLogger(__name__)

SETTABLE_FIELDS = frozenset(field.name for field in fields(Checkpoint)) - FIXED_FIELDS
FIELDS_OF_THE_AGENT = frozenset({"policy", "interface", "versions"})


class CheckpointManager(CheckpointStore):
    """Of a run directory, or of its `checkpoints/` folder; the first save makes what is not there yet."""

    def __init__(
        self, run_dir: RunDirectory | Path | str, config: CheckpointConfig | None = None, fs: FileSystem = durable.REAL
    ) -> None:
        """Without `config` nothing is ever removed; with it, retention follows every save."""
        super().__init__(checkpoint_folder(run_dir), config, fs)
        self._began_at = time.monotonic()
        self._saved_agent: nn.Module | None = None
        self._has_warned_missing = False

    def save_agent(self, agent: Any, epoch: int, metadata: Mapping[str, Any] | None = None) -> Checkpoint:
        """Save a torch module, or an agent of ours, as epoch `epoch`; it is on the disk when this returns.

        `metadata` may set any field of the sidecar (score, avg_reward, agent_step, env, seed, …); further numbers are
        kept among its metrics. Weights with NaN are refused.
        """
        described = loading.describe_agent(agent)
        run = self.directory.resolve().parent.name
        checkpoint = Checkpoint(
            epoch=_checked_epoch(epoch),
            agent_step=0,
            total_time=time.monotonic() - self._began_at,
            run=run,
            run_name=run,
            saved_at=time.time(),
            policy=described.policy,
            env=described.env,
            interface=described.interface,
        )
        saved = self.save(described.module, replace(checkpoint, **_sorted_metadata(metadata or {})))
        self._saved_agent = described.module
        return saved

    def load_agent(
        self,
        selector: str | int | Path = "latest",
        into: nn.Module | Callable[[], nn.Module] | None = None,
        *,
        trust_module: bool = False,
    ) -> LoadedPolicy | nn.Module | None:
        """The agent of `latest`, `best`, an epoch or a path, ready to act; None when there is no checkpoint at all.

        An agent of ours comes back with `.act(observation)`. A torch module of your own comes back in evaluation mode:
        `into` is the module to fill, or a class or function that makes one. Without `into` a copy of the module that
        this manager saved is filled. `trust_module` is that of `palaestra.load_policy`.
        """
        self._warn_if_missing()
        if not isinstance(selector, Path) and not durable.committed_epochs(self.directory):
            return None
        opened = self.open(selector)
        if into is None and not loading.is_module_checkpoint(opened):
            return loading.load_opened_agent(opened, self.directory, trust_module=trust_module)
        if into is None and self._saved_agent is not None:
            into = loading.copy_of(self._saved_agent, opened)
        return loading.load_opened_module(opened, into)

    def save_trainer_state(self, optimizer: Any, epoch: int, agent_step: int) -> Checkpoint:
        """Save what is needed to go on from an epoch whose agent is saved: the optimizer's state and the step."""
        if not hasattr(optimizer, "state_dict"):
            raise UsageError(
                f"save_trainer_state cannot save a {type(optimizer).__qualname__}.", "Give a torch optimizer."
            )
        if _checked_epoch(epoch) not in durable.committed_epochs(self.directory):
            raise NotFound(
                f"No checkpoint of epoch {epoch} in {self.directory}.",
                f"Save its agent first: save_agent(agent, {epoch}).",
            )
        state = {"optimizer": optimizer.state_dict(), "epoch": epoch, "agent_step": agent_step}
        return self.add_trainer_state(epoch, state, agent_step=agent_step)

    def load_trainer_state(self, selector: str | int | Path = "latest") -> dict[str, Any] | None:
        """`{"optimizer": …, "epoch": …, "agent_step": …}`, for `optimizer.load_state_dict(state["optimizer"])`.

        `latest` is the newest epoch that has one. None when there is none.
        """
        self._warn_if_missing()
        return super().load_trainer_state(selector)

    def list_all_checkpoints(self) -> list[Checkpoint]:
        """From the oldest to the newest; `survey` also tells which were refused."""
        self._warn_if_missing()
        return super().list_all_checkpoints()

    def _warn_if_missing(self) -> None:
        """A misspelt path looks like a run without checkpoints, so it is named."""
        if not self.directory.exists() and not self._has_warned_missing:
            self._has_warned_missing = True
            logger.warning("%s does not exist (yet): there are no checkpoints.", self.directory)


def checkpoint_folder(place: RunDirectory | Path | str) -> Path:
    """The folder with the checkpoints, given a run's directory or that folder; what is neither is a `UsageError`."""
    if isinstance(place, RunDirectory):
        return place.checkpoints
    path = Path(place).expanduser()
    run = RunDirectory(path)
    if run.checkpoints.exists() or run.status_file.exists():
        return run.checkpoints
    if path.is_dir() and (path.name == run.checkpoints.name or durable.committed_epochs(path)):
        return path
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise UsageError(
            f"{path} is neither a run directory nor the checkpoints folder of one.",
            f"Give a directory that holds '{run.checkpoints.name}', that folder itself, or a new or empty directory.",
        )
    return run.checkpoints


def _checked_epoch(epoch: int) -> int:
    if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
        raise UsageError(f"Invalid value for epoch: {epoch!r} (must be a whole number, at least 0).")
    return epoch


def _sorted_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the sidecar by their names, every further number among the metrics."""
    changes: dict[str, Any] = {}
    metrics: dict[str, float] = dict(metadata.get("metrics", {}))
    for name, value in metadata.items():
        if name in SETTABLE_FIELDS - FIELDS_OF_THE_AGENT:
            changes[name] = value
        elif isinstance(value, Real) and name not in FIXED_FIELDS | FIELDS_OF_THE_AGENT:
            metrics[name] = float(value)
        else:
            allowed = sorted(SETTABLE_FIELDS - FIELDS_OF_THE_AGENT)
            hint = did_you_mean(name, allowed) or f"Numbers may have any name; else: {', '.join(allowed)}."
            raise UsageError(f"metadata[{name!r}]={value!r} cannot be kept with a checkpoint.", hint)
    if isinstance(changes.get("env"), str):
        changes["env"] = {"id": changes["env"]}
    return {**changes, "metrics": metrics}
