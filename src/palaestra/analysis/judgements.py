"""What the judgements of a run left on disk: for each simulation, the return of every seed that was played."""

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
    """What was played, and how: two judgements with the same can be compared, whatever they call it."""

    env_id: str
    env_kwargs: str  # JSON with sorted keys
    max_episode_steps: int | None
    deterministic: bool

    @property
    def settings(self) -> dict[str, Any]:
        """What is not said by the id alone."""
        limit = {} if self.max_episode_steps is None else {"max_episode_steps": self.max_episode_steps}
        return {**json.loads(self.env_kwargs), **limit}


@dataclass(frozen=True)
class Judgement:
    setting: Setting
    simulation: str
    category: str
    returns: dict[int, float]  # by seed; finite
    not_finite: int  # episodes whose return is no number to calculate with
    complete: bool


@dataclass(frozen=True)
class Judged:
    """All judgements of one checkpoint; those in the same setting are one."""

    judgements: tuple[Judgement, ...]
    notes: tuple[str, ...] = ()


def judged_epochs(directory: RunDirectory) -> list[int]:
    """In ascending order, each once."""
    epochs = {batch.get("epoch") for batch in read_batches(directory)}
    return sorted(epoch for epoch in epochs if isinstance(epoch, int))


def read_judged(directory: RunDirectory, epoch: int) -> Judged:
    """A file of rows that cannot be read is named and left out."""
    found: dict[Setting, Judgement] = {}
    notes = []
    for batch in read_batches(directory):
        if batch.get("epoch") != epoch:
            continue
        for place in _places(batch):
            try:
                judgement = _read(directory.evaluations / Path(place).name)
            except (DamagedFile, NotFound) as error:
                notes.append(f"Left out: {error.message}")
                continue
            before = found.get(judgement.setting)
            found[judgement.setting] = judgement if before is None else _joined(before, judgement)
    return Judged(tuple(found.values()), tuple(notes))


def _places(batch: dict[str, Any]) -> Sequence[str]:
    simulations = batch.get("simulations", [batch])
    return [str(one["file"]) for one in simulations if isinstance(one, dict) and "file" in one]


def _read(path: Path) -> Judgement:
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
        return Judgement(setting, name, category, finite, len(returns) - len(finite), complete)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFile(f"{path} holds no episodes ({type(error).__name__}: {error}).") from error


def _joined(before: Judgement, after: Judgement) -> Judgement:
    """A seed that was played twice counts once; a name that says something goes before `default`."""
    named = before if after.simulation == DEFAULT else after
    return Judgement(
        before.setting,
        named.simulation,
        named.category,
        before.returns | after.returns,
        max(before.not_finite, after.not_finite),
        before.complete or after.complete,
    )
