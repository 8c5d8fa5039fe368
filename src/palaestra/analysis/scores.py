"""Scores of policies in simulations, with confidence intervals and probabilities of improvement."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.analysis.statistics import (
    Estimate,
    Values,
    estimate,
    interquartile_mean,
    mean_of_strata,
    probability_of_improvement,
)
from palaestra.core.evaluation import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palaestra.analysis.evaluations import Setting, SimulationResult
    from palaestra.analysis.targets import AnalysisTarget, Group

    SimulationResults = Mapping[str, Mapping[Setting, SimulationResult]]  # by a subject's label

RUNS, EPISODES = "runs", "episodes"  # what an interval is over


@dataclass(frozen=True)
class Simulation:
    """A column."""

    name: str
    category: str
    env: str
    settings: dict[str, Any]
    deterministic: bool


@dataclass(frozen=True)
class Cell:
    simulation: str
    mean: Estimate
    iqm: Estimate
    least: float  # of all episodes
    most: float
    episodes: int
    over: str  # what was resampled: runs, or the episodes of one
    count: int  # how many of them
    shade: float = 0.5  # position of the mean between minimum (0) and maximum (1) of its column

    @property
    def basis(self) -> str:
        """`5 runs`, `1 episode`"""
        return f"{self.count} {self.over if self.count != 1 else self.over.removesuffix('s')}"


@dataclass(frozen=True)
class Row:
    label: str
    members: tuple[str, ...]  # labels of the policies in it
    cells: dict[str, Cell]  # by simulation; one that was not played is absent
    mean: Estimate | None  # over the simulations that all rows have; None: there is none
    iqm: Estimate | None


@dataclass(frozen=True)
class Improvement:
    """The probability that `better` scores above `worse`; below 0.5 `worse` is the better one."""

    better: str
    worse: str
    probability: Estimate
    over: str
    simulations: tuple[str, ...]


@dataclass(frozen=True)
class Scores:
    simulations: tuple[Simulation, ...]
    shared: tuple[str, ...]  # simulations that every row has: overall figures are over these
    policies: tuple[Row, ...]
    groups: tuple[Row, ...]  # the same as `policies` where no group has several runs
    improvements: tuple[Improvement, ...]

    @property
    def has_groups(self) -> bool:
        return any(len(group.members) > 1 for group in self.groups)


def make_scores(groups: Sequence[Group], results: SimulationResults) -> Scores:
    """`groups` in the order of the rows; policies that were never judged have no row."""
    named = _named_settings(results)
    evaluated = [(group, [one for one in group.targets if results.get(one.label)]) for group in groups]
    # Of a group of which one run was judged, that run is what one knows.
    there = {targets[0].label if len(targets) == 1 else group.label: targets for group, targets in evaluated if targets}
    samples = {label: _samples(targets, results, named) for label, targets in there.items()}
    alone = {one.label: _samples([one], results, named) for targets in there.values() for one in targets}
    shared = tuple(one.name for one in named.values() if all(one.name in sample for sample in alone.values()))
    members = {label: tuple(one.label for one in targets) for label, targets in there.items()}
    return Scores(
        tuple(named.values()),
        shared,
        _rows(alone, shared, {label: (label,) for label in alone}),
        _rows(samples, shared, members),
        tuple(
            _improvement(one, other, samples) for one, other in combinations(samples, 2) if _common(samples, one, other)
        ),
    )


@dataclass(frozen=True)
class _Sample:
    """Returns in one simulation, run by run."""

    runs: tuple[Values, ...]  # each [episodes], not empty

    @property
    def over(self) -> str:
        return RUNS if len(self.runs) > 1 else EPISODES

    @property
    def episodes(self) -> Values:
        return np.concatenate(self.runs)

    def values(self, over: str) -> Values:
        return np.array([run.mean() for run in self.runs]) if over == RUNS else self.episodes


Samples = dict[str, _Sample]  # by simulation


def _samples(
    targets: Sequence[AnalysisTarget], results: SimulationResults, named: Mapping[Setting, Simulation]
) -> Samples:
    found: dict[str, list[Values]] = {}
    for setting, simulation in named.items():
        for target in targets:
            result = results[target.label].get(setting)
            if result is not None and result.returns:
                found.setdefault(simulation.name, []).append(np.array(list(result.returns.values()), np.float64))
    return {name: _Sample(tuple(runs)) for name, runs in found.items()}


def _rows(
    samples: Mapping[str, Samples], shared: tuple[str, ...], members: Mapping[str, tuple[str, ...]]
) -> tuple[Row, ...]:
    means = [{name: sample.values(sample.over).mean() for name, sample in one.items()} for one in samples.values()]
    rows = []
    for label, one in samples.items():
        cells = {
            name: _cell(name, sample, [mean[name] for mean in means if name in mean]) for name, sample in one.items()
        }
        strata = [one[name].values(one[name].over) for name in shared]
        rows.append(
            Row(
                label,
                members[label],
                cells,
                estimate(strata, mean_of_strata) if strata else None,
                estimate(strata, interquartile_mean) if strata else None,
            )
        )
    return tuple(rows)


def _cell(name: str, sample: _Sample, column: Sequence[float]) -> Cell:
    values, episodes = sample.values(sample.over), sample.episodes
    mean, lowest, highest = values.mean(), min(column), max(column)
    return Cell(
        name,
        estimate([values], mean_of_strata),
        estimate([values], interquartile_mean),
        float(episodes.min()),
        float(episodes.max()),
        len(episodes),
        sample.over,
        len(values),
        float((mean - lowest) / (highest - lowest)) if highest > lowest else 0.5,
    )


def _common(samples: Mapping[str, Samples], one: str, other: str) -> tuple[str, ...]:
    return tuple(name for name in samples[one] if name in samples[other])


def _improvement(one: str, other: str, samples: Mapping[str, Samples]) -> Improvement:
    """Compares runs with runs where both have several, else episodes with episodes."""
    names = _common(samples, one, other)
    several = all(samples[label][name].over == RUNS for label in (one, other) for name in names)
    over = RUNS if several else EPISODES
    pairs = [(samples[one][name].values(over), samples[other][name].values(over)) for name in names]
    return Improvement(one, other, probability_of_improvement(pairs), over, names)


def _named_settings(results: SimulationResults) -> dict[Setting, Simulation]:
    """A unique name for each setting, sorted by category and then by appearance."""
    found: dict[Setting, SimulationResult] = {}
    for one in results.values():
        for setting, result in one.items():
            before = found.get(setting)
            if result.returns and (before is None or before.simulation == DEFAULT):
                found[setting] = result
    order = sorted(found.values(), key=lambda result: result.category)
    names: list[str] = []
    for result in order:
        names.append(_free_name(result, order, names))
    return {
        one.setting: Simulation(name, one.category, one.setting.env_id, one.setting.settings, one.setting.deterministic)
        for one, name in zip(order, names, strict=True)
    }


def _free_name(result: SimulationResult, others: Sequence[SimulationResult], taken: Sequence[str]) -> str:
    """The name of the simulation; `default` becomes its environment, with settings where names would be equal."""
    name = _setting_name(result)
    if [_setting_name(one) for one in others].count(name) > 1:
        caption = " ".join(f"{key}={value}" for key, value in result.setting.settings.items())
        name = " ".join(part for part in (name, caption, "" if result.setting.deterministic else "sampled") if part)
    number = 2
    free = name
    while free in taken:
        free, number = f"{name} #{number}", number + 1
    return free


def _setting_name(result: SimulationResult) -> str:
    return result.setting.env_id if result.simulation == DEFAULT else result.simulation
