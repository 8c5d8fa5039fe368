"""An analysis: everything that can be said about some runs and checkpoints from what lies on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.analysis.curves import Chart, make_charts
from palaestra.analysis.groups import group_policies, group_runs
from palaestra.analysis.judgements import Judged, read_judged
from palaestra.analysis.scores import Scores, make_scores
from palaestra.analysis.subjects import find_subjects
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from palaestra.analysis.subjects import Subject
    from palaestra.analysis.weights import WeighedPolicy


@dataclass(frozen=True)
class Policy:
    """Whom the analysis is about, traced to what made it."""

    label: str
    target: str
    run: str
    run_name: str
    recipe: str
    epoch: int | None
    agent_step: int | None
    seed: int | None
    score: float | None  # as its sidecar has it
    env: str
    git_commit: str
    group: str


@dataclass(frozen=True)
class Analysis:
    policies: tuple[Policy, ...]
    scores: Scores
    charts: tuple[Chart, ...]
    weights: tuple[WeighedPolicy, ...] = ()
    notes: tuple[str, ...] = ()


def analyze_subjects(subjects: Sequence[Subject], metrics: Sequence[str] = ()) -> Analysis:
    """All but the weights: torch is not needed."""
    if not subjects:
        raise UsageError("There is nothing to analyze.", "Name at least one run.")
    judged = {subject.label: _judged(subject) for subject in subjects}
    groups = group_policies(subjects)
    rows = {label: {one.setting: one for one in found.judgements} for label, found in judged.items()}
    of_group = {subject.label: group.label for group in groups for subject in group.subjects}
    notes = [note for subject in subjects for note in _notes(subject, judged[subject.label])]
    scores = make_scores(groups, rows)
    if scores.policies and not scores.shared:
        notes.append("No simulation was played by all of them, so there are no overall figures.")
    elif len(scores.shared) < len(scores.simulations):
        notes.append(f"Overall figures are over what all of them have played: {', '.join(scores.shared)}.")
    return Analysis(
        tuple(_policy(subject, of_group[subject.label]) for subject in subjects),
        scores,
        make_charts(group_runs(subjects), metrics),
        notes=tuple(notes),
    )


def find_and_analyze(targets: Sequence[str], runs_root: Path | None = None, metrics: Sequence[str] = ()) -> Analysis:
    """Targets are as for `palaestra eval`: `RUN`, `RUN:best`, `RUN:EPOCH`, a path."""
    return analyze_subjects(find_subjects(targets, runs_root), metrics)


def _judged(subject: Subject) -> Judged:
    if subject.directory is None or subject.epoch is None:
        return Judged(())
    return read_judged(subject.directory, subject.epoch)


def _notes(subject: Subject, judged: Judged) -> list[str]:
    notes = [*subject.notes, *judged.notes]
    if subject.epoch is None:
        notes.append("It has saved no checkpoint yet; its curves are shown.")
    elif subject.directory is None:
        notes.append("This checkpoint came without its run, so there are no episodes and no curves of it.")
    elif not judged.judgements:
        notes.append(f"It was never judged; its curves are shown. To judge it: palaestra eval {subject.label}")
    for one in judged.judgements:
        if one.not_finite:
            notes.append(f"{one.not_finite} episodes of '{one.simulation}' have no finite return and are left out.")
        if not one.complete:
            notes.append(f"'{one.simulation}' was not played to its end.")
    return [f"{subject.label}: {note}" for note in notes]


def _policy(subject: Subject, group: str) -> Policy:
    checkpoint = subject.checkpoint
    return Policy(
        label=subject.label,
        target=subject.target,
        run=subject.run,
        run_name=subject.run_name,
        recipe=subject.recipe,
        epoch=subject.epoch,
        agent_step=None if checkpoint is None else checkpoint.agent_step,
        seed=None if checkpoint is None else checkpoint.seed,
        score=None if checkpoint is None else checkpoint.score,
        env="" if checkpoint is None else str(checkpoint.env.get("id", "")),
        git_commit="" if checkpoint is None else checkpoint.git_commit,
        group=group,
    )
