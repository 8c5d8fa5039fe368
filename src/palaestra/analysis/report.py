"""An analysis: scores, learning curves and weights of runs and checkpoints, from their files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.analysis.curves import Chart, make_charts
from palaestra.analysis.evaluations import CheckpointEvaluations, read_evaluations
from palaestra.analysis.scores import Scores, make_scores
from palaestra.analysis.targets import find_targets, group_policies, group_runs
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from palaestra.analysis.targets import AnalysisTarget
    from palaestra.analysis.weights import PolicyWeights


@dataclass(frozen=True)
class Policy:
    """A policy of the analysis, with the run that trained it."""

    label: str
    target: str
    run: str
    run_name: str
    recipe: str
    epoch: int | None
    agent_step: int | None
    seed: int | None
    score: float | None  # of its sidecar
    env: str
    git_commit: str
    group: str


@dataclass(frozen=True)
class Analysis:
    policies: tuple[Policy, ...]
    scores: Scores
    charts: tuple[Chart, ...]
    weights: tuple[PolicyWeights, ...] = ()
    notes: tuple[str, ...] = ()


def analyze_targets(targets: Sequence[AnalysisTarget], metrics: Sequence[str] = ()) -> Analysis:
    """The analysis without weights, which need torch."""
    if not targets:
        raise UsageError("There is nothing to analyze.", "Name at least one run.")
    evaluated = {target.label: _evaluations_of(target) for target in targets}
    groups = group_policies(targets)
    rows = {label: {one.setting: one for one in found.results} for label, found in evaluated.items()}
    of_group = {target.label: group.label for group in groups for target in group.targets}
    notes = [note for target in targets for note in _notes(target, evaluated[target.label])]
    scores = make_scores(groups, rows)
    if scores.policies and not scores.shared:
        notes.append("No simulation was played by all policies, so there are no overall figures.")
    elif len(scores.shared) < len(scores.simulations):
        notes.append(
            f"Overall figures are over the simulations that all policies have played: {', '.join(scores.shared)}."
        )
    return Analysis(
        tuple(_policy(target, of_group[target.label]) for target in targets),
        scores,
        make_charts(group_runs(targets), metrics),
        notes=tuple(notes),
    )


def find_and_analyze(targets: Sequence[str], runs_root: Path | None = None, metrics: Sequence[str] = ()) -> Analysis:
    """Targets are as for `palaestra eval`: `RUN`, `RUN:best`, `RUN:EPOCH`, a path."""
    return analyze_targets(find_targets(targets, runs_root), metrics)


def _evaluations_of(target: AnalysisTarget) -> CheckpointEvaluations:
    if target.directory is None or target.epoch is None:
        return CheckpointEvaluations(())
    return read_evaluations(target.directory, target.epoch)


def _notes(target: AnalysisTarget, evaluated: CheckpointEvaluations) -> list[str]:
    notes = [*target.notes, *evaluated.notes]
    if target.epoch is None:
        notes.append("The run has saved no checkpoint yet; its curves are shown.")
    elif target.directory is None:
        notes.append("This checkpoint came without its run, so there are no episodes and no curves of it.")
    elif not evaluated.results:
        notes.append(f"It was never evaluated; its curves are shown. To evaluate it: palaestra eval {target.label}")
    for one in evaluated.results:
        if one.not_finite:
            notes.append(f"{one.not_finite} episodes of '{one.simulation}' have no finite return and are left out.")
        if not one.complete:
            notes.append(f"'{one.simulation}' was not played completely.")
    return [f"{target.label}: {note}" for note in notes]


def _policy(target: AnalysisTarget, group: str) -> Policy:
    checkpoint = target.checkpoint
    return Policy(
        label=target.label,
        target=target.target,
        run=target.run,
        run_name=target.run_name,
        recipe=target.recipe,
        epoch=target.epoch,
        agent_step=None if checkpoint is None else checkpoint.agent_step,
        seed=None if checkpoint is None else checkpoint.seed,
        score=None if checkpoint is None else checkpoint.score,
        env="" if checkpoint is None else str(checkpoint.env.get("id", "")),
        git_commit="" if checkpoint is None else checkpoint.git_commit,
        group=group,
    )
