"""Runs that differ in nothing but their seed are one group: one experiment, done several times."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from palaestra.analysis.subjects import SEED, Subject
from palaestra.runs.documents import diff_configs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHORTEST_PREFIX = 3  # letters that names must share to be called by them
SHOWN_DIFFERENCES = 2


@dataclass(frozen=True)
class Group:
    label: str
    subjects: tuple[Subject, ...]

    @property
    def run_names(self) -> tuple[str, ...]:
        return tuple(subject.run_name for subject in self.subjects)


def group_policies(subjects: Sequence[Subject]) -> tuple[Group, ...]:
    """By config and by which checkpoint was asked for: two epochs of one run are two policies."""
    return _grouped(subjects, lambda subject: f"{_experiment(subject)} {subject.selector}", lambda one: one.label)


def group_runs(subjects: Sequence[Subject]) -> tuple[Group, ...]:
    """By config alone, each run once: for what belongs to the run and not to a checkpoint."""
    runs = {subject.run: subject for subject in reversed(subjects) if subject.directory is not None}
    return _grouped([one for one in subjects if runs.get(one.run) is one], _experiment, lambda one: one.run_name)


def _experiment(subject: Subject) -> str:
    if subject.config is None:
        return f"run {subject.run}"
    return json.dumps({key: value for key, value in subject.config.items() if key != SEED}, sort_keys=True)


def _grouped(
    subjects: Sequence[Subject], key: Callable[[Subject], str], name: Callable[[Subject], str]
) -> tuple[Group, ...]:
    """`name` is what a group of one is called."""
    groups: dict[str, list[Subject]] = {}
    for subject in subjects:
        groups.setdefault(key(subject), []).append(subject)
    members = list(groups.values())
    return tuple(Group(label, tuple(one)) for label, one in zip(_labels(members, name), members, strict=True))


def _labels(groups: list[list[Subject]], name: Callable[[Subject], str]) -> list[str]:
    """Told apart by what differs in their configs, and if that is not enough, by the name of their first run."""
    labels = [name(group[0]) if len(group) == 1 else _shared_name(group) for group in groups]
    first = groups[0][0].config if groups else None
    for index, group in enumerate(groups):
        config = group[0].config
        if labels.count(labels[index]) > 1 and first is not None and config is not None and index > 0:
            differences = [one for one in diff_configs(first, config) if one.key_path != SEED][:SHOWN_DIFFERENCES]
            told = ", ".join(f"{one.key_path}={one.new}" for one in differences)
            labels[index] = f"{labels[index]} ({told})" if told else labels[index]
    return [
        label if labels.count(label) == 1 else f"{label} [{group[0].label}]"
        for label, group in zip(labels, groups, strict=True)
    ]


def _shared_name(group: list[Subject]) -> str:
    names = [subject.run_name for subject in group]
    letters = takewhile(lambda column: len(set(column)) == 1, zip(*names, strict=False))
    shared = "".join(column[0] for column in letters).rstrip("-_.:0123456789 ")
    name = shared if len(shared) >= SHORTEST_PREFIX else group[0].recipe or group[0].run_name
    return f"{name} x{len(group)}"
