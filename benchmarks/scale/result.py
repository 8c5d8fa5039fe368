"""Everything that one run of the benchmark found, as it is kept in scale.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scale.evaluations import EvaluationFigure
from scale.model import SumCosts, Workload, fit_costs
from scale.sums import SumFigure
from scale.training import TrainingFigure
from scale.workers import EvaluationCosts

SAMPLES = 400  # that are kept of a distribution


@dataclass(frozen=True)
class Result:
    machine: str
    cores: int
    date: str
    load: float  # before it began
    decision: str  # file in docs/decisions
    sums: tuple[SumFigure, ...]
    delayed: tuple[SumFigure, ...]
    workloads: tuple[Workload, ...]
    trainings: tuple[TrainingFigure, ...]
    evaluations: tuple[EvaluationFigure, ...]
    evaluation_costs: tuple[EvaluationCosts, ...]
    note: str = ""  # what a reader must know of this measurement

    @property
    def costs(self) -> SumCosts:
        return fit_costs(self.sums)


KINDS: dict[str, Any] = {
    "sums": SumFigure,
    "delayed": SumFigure,
    "workloads": Workload,
    "trainings": TrainingFigure,
    "evaluations": EvaluationFigure,
    "evaluation_costs": EvaluationCosts,
}


def to_json(result: Result) -> dict[str, Any]:
    """With the fitted costs, for whoever reads the file; they are fitted again when it is loaded."""
    return {**thin(asdict(result)), "costs": thin(asdict(result.costs))}


def from_json(fields: dict[str, Any]) -> Result:
    found = {name: value for name, value in fields.items() if name != "costs"}
    for name, kind in KINDS.items():
        found[name] = tuple(kind(**{key: tupled(value) for key, value in row.items()}) for row in found[name])
    return Result(**found)


def thin(value: Any) -> Any:
    """Of long lists of samples SAMPLES quantiles stay, with the smallest and the largest; digits that are noise go."""
    if isinstance(value, dict):
        return {key: thin(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        if len(value) > SAMPLES and all(isinstance(one, float) for one in value):
            value = np.quantile(value, np.linspace(0, 1, SAMPLES)).tolist()
        return [thin(one) for one in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
