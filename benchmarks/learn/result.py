"""What one training of one side came to, and the file it is kept in."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Job:
    """One training; results with equal jobs are interchangeable."""

    side: str  # "ours" or "sb3"
    task: str
    seed: int
    total_steps: int
    settings: dict[str, Any]  # everything that decides how well it learns
    overrides: dict[str, Any] = field(default_factory=dict)  # how a trial differs from the recipe; within `settings`

    @property
    def name(self) -> str:
        words = json.dumps(asdict(replace(self, overrides={})), sort_keys=True)
        return f"{self.task}-{self.side}-{self.seed}-{hashlib.sha256(words.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Result:
    job: Job
    steps: int  # environment steps really taken: the budget, rounded up to whole rollouts
    returns: tuple[float, ...]  # of the evaluation episodes, in the order of their seeds
    training_return: float  # mean over the last episodes of training
    seconds: float  # of training, on a machine that did other things too: no measure of speed
    versions: dict[str, str]

    @property
    def mean(self) -> float:
        return sum(self.returns) / len(self.returns)


def write_result(path: Path, result: Result) -> None:
    """Whole or not at all: a run that is stopped leaves no half result to be believed later."""
    temporary = path.with_suffix(".temporary")
    temporary.write_text(json.dumps(asdict(result), indent=1) + "\n")
    temporary.replace(path)


def read_result(path: Path) -> Result:
    data = json.loads(path.read_text())
    return Result(**{**data, "job": Job(**data["job"]), "returns": tuple(data["returns"])})


def find_result(folder: Path, job: Job) -> Result | None:
    path = folder / f"{job.name}.json"
    return read_result(path) if path.exists() else None
