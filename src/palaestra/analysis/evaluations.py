"""Recorded evaluations of a checkpoint: for each simulation, the return of every seed that was played."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.core.evaluation import DEFAULT
from palaestra.evaluation.summary import SCHEMA_VERSION, read_batches
from palaestra.runs.files import read_json, unstamped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.runs.directory import RunDirectory


@dataclass(frozen=True)
class Setting:
    """An environment and how it was played; results in equal settings can be compared whatever their names."""

    env_id: str
    env_kwargs: str  # JSON with sorted keys
    max_episode_steps: int | None
    deterministic: bool

    @property
    def settings(self) -> dict[str, Any]:
        """The settings beside the id."""
        limit = {} if self.max_episode_steps is None else {"max_episode_steps": self.max_episode_steps}
        return {**json.loads(self.env_kwargs), **limit}


@dataclass(frozen=True)
class SimulationResult:
    setting: Setting
    simulation: str
    category: str
    returns: dict[int, float]  # by seed; finite
    not_finite: int  # episodes with a return of NaN or infinity
    complete: bool


@dataclass(frozen=True)
class CheckpointEvaluations:
    """All results of one checkpoint; results in the same setting are joined."""

    results: tuple[SimulationResult, ...]
    notes: tuple[str, ...] = ()


def evaluated_epochs(directory: RunDirectory) -> list[int]:
    """The evaluated epochs, ascending."""
    epochs = {batch.get("epoch") for batch in read_batches(directory)}
    return sorted(epoch for epoch in epochs if isinstance(epoch, int))


def read_evaluations(directory: RunDirectory, epoch: int) -> CheckpointEvaluations:
    """A file that cannot be read is skipped with a note."""
    found: dict[Setting, SimulationResult] = {}
    notes = []
    for batch in read_batches(directory):
        if batch.get("epoch") != epoch:
            continue
        for name in _file_names(batch):
            try:
                result = _read(directory.evaluations / Path(name).name)
            except (DamagedFile, NotFound) as error:
                notes.append(f"Skipped: {error.message}")
                continue
            before = found.get(result.setting)
            found[result.setting] = result if before is None else _joined(before, result)
    return CheckpointEvaluations(tuple(found.values()), tuple(notes))


def _file_names(batch: dict[str, Any]) -> Sequence[str]:
    simulations = batch.get("simulations", [batch])
    return [str(one["file"]) for one in simulations if isinstance(one, dict) and "file" in one]


def _read(path: Path) -> SimulationResult:
    content = unstamped(read_json(path, follow_links=False), SCHEMA_VERSION, path)
    try:
        plan = content["plan"]
        setting = Setting(
            str(plan["env_id"]),
            json.dumps(dict(plan["env_kwargs"]), sort_keys=True),
            plan.get("max_episode_steps"),
            bool(plan["deterministic"]),
        )
        returns = {int(row["seed"]): float(row["total_reward"]) for row in content["rows"]}
        finite = {seed: value for seed, value in returns.items() if math.isfinite(value)}
        name, category = str(plan.get("simulation", DEFAULT)), str(plan.get("category", DEFAULT))
        complete = bool(content.get("complete", True))
        return SimulationResult(setting, name, category, finite, len(returns) - len(finite), complete)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFile(f"{path} holds no episodes ({type(error).__name__}: {error}).") from error


def _joined(before: SimulationResult, after: SimulationResult) -> SimulationResult:
    """A seed that was played twice counts once; a specific name goes before `default`."""
    named = before if after.simulation == DEFAULT else after
    return SimulationResult(
        before.setting,
        named.simulation,
        named.category,
        before.returns | after.returns,
        max(before.not_finite, after.not_finite),
        before.complete or after.complete,
    )
