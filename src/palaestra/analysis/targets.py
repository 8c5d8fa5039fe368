"""The runs and checkpoints of an analysis, and groups of runs that differ only in their seed."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.analysis.evaluations import evaluated_epochs
from palaestra.checkpoints.selection import epoch_of_path, rank_from_best, survey
from palaestra.checkpoints.targets import FILE_ENDINGS, Target, find_target
from palaestra.core.errors import DamagedFile, NotFound
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import diff_configs, read_config
from palaestra.runs.status import read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palaestra.checkpoints.selection import Survey
    from palaestra.core.checkpoint import Checkpoint

SEED = "seed"  # the key that may differ within a group


@dataclass(frozen=True)
class AnalysisTarget:
    target: str  # as typed
    selector: str  # best, latest or an epoch, as typed; empty: none was
    label: str  # its name in every table
    run: str  # id
    run_name: str
    recipe: str
    found: Target
    directory: RunDirectory | None  # None: a checkpoint that came without its run
    epoch: int | None  # None: the run has saved nothing yet
    checkpoint: Checkpoint | None  # None: removed since it was evaluated, or damaged
    config: dict[str, Any] | None  # as run, with the seed; None: cannot be read
    notes: tuple[str, ...] = ()


def find_targets(targets: Sequence[str], runs_root: Path | None = None) -> tuple[AnalysisTarget, ...]:
    """The targets in order, without duplicates."""
    found: dict[tuple[str, int | None], AnalysisTarget] = {}
    for text in targets:
        target = _find_target(text, runs_root)
        found.setdefault((target.run, target.epoch), target)
    labels = [target.label for target in found.values()]
    return tuple(
        target if labels.count(target.label) == 1 else replace(target, label=f"{target.label} {target.run[-6:]}")
        for target in found.values()
    )


def _find_target(target: str, runs_root: Path | None) -> AnalysisTarget:
    found = find_target(target, runs_root)
    is_file = target.endswith(FILE_ENDINGS)
    selector = str(found.selector) if ":" in target and not is_file else ""
    directory = _run_of(found)
    overview = survey(found.directory)
    evaluated = [] if directory is None else evaluated_epochs(directory)
    if is_file:
        epoch: int | None = _demand_epoch(epoch_of_path(Path(target)), overview, [], found)
        selector = str(epoch)
    else:
        epoch = _choose(selector, overview, evaluated, found)
    checkpoint = next((one for one in overview.checkpoints if one.epoch == epoch), None)
    notes = [f"Damaged: {one.reason}" for one in overview.refused]
    if directory is None:
        assert checkpoint is not None, "a file is either there or refused"
        run, name, recipe, config = checkpoint.run, checkpoint.run_name, "", None
    else:
        record = read_record(directory)
        run, name, recipe = directory.id, record.name, record.recipe
        config = _config_of(directory, notes)
    label = name if epoch is None else f"{name}:{epoch}"
    return AnalysisTarget(
        target, selector, label, run, name, recipe, found, directory, epoch, checkpoint, config, tuple(notes)
    )


def _choose(selector: str, overview: Survey, evaluated: list[int], found: Target) -> int | None:
    """Without a selector: the best epoch, else the last evaluated one, else the last."""
    saved = [one.epoch for one in overview.checkpoints]
    ranked = [one.epoch for one in rank_from_best(overview.checkpoints)]
    match selector:
        case "":
            return next(iter([*ranked[:1], *evaluated[-1:], *saved[-1:]]), None)
        case "best":
            if not ranked:
                hint = "Judge one with 'palaestra eval RUN', or select latest."
                raise NotFound(f"No checkpoint in {found.directory} has a score yet, so none is the best.", hint)
            return ranked[0]
        case "latest":
            if not saved:
                raise NotFound(f"There is no checkpoint in {found.directory}.", "Has the run saved one yet?")
            return saved[-1]
        case _:
            return _demand_epoch(int(selector), overview, evaluated, found)


def _demand_epoch(epoch: int, overview: Survey, evaluated: list[int], found: Target) -> int:
    """One that was judged may be gone by now; its episodes are still there."""
    there = sorted({*evaluated, *(one.epoch for one in overview.checkpoints)})
    if epoch in there:
        return epoch
    for refused in overview.refused:
        if epoch_of_path(refused.path) == epoch:
            raise DamagedFile(refused.reason)
    known = ", ".join(map(str, there)) or "none"
    raise NotFound(f"There is no checkpoint of epoch {epoch} in {found.directory}.", f"Epochs there: {known}.")


def _run_of(found: Target) -> RunDirectory | None:
    directory = RunDirectory(found.directory.resolve().parent)
    is_run = found.directory.resolve() == directory.checkpoints and directory.status_file.is_file()
    return directory if is_run else None


def _config_of(directory: RunDirectory, notes: list[str]) -> dict[str, Any] | None:
    try:
        return read_config(directory)
    except (DamagedFile, NotFound) as error:
        notes.append(f"Its configuration cannot be read, so it is in a group of its own: {error.message}")
        return None


SHORTEST_PREFIX = 3  # letters that the names of a group must share to become its label
SHOWN_DIFFERENCES = 2


@dataclass(frozen=True)
class Group:
    label: str
    targets: tuple[AnalysisTarget, ...]

    @property
    def run_names(self) -> tuple[str, ...]:
        return tuple(target.run_name for target in self.targets)


def group_policies(targets: Sequence[AnalysisTarget]) -> tuple[Group, ...]:
    """Groups by config and selector: two epochs of one run are two policies."""
    return _grouped(targets, lambda target: f"{_experiment(target)} {target.selector}", lambda one: one.label)


def group_runs(targets: Sequence[AnalysisTarget]) -> tuple[Group, ...]:
    """Groups by config alone, each run once: for data of runs, not of checkpoints."""
    runs = {target.run: target for target in reversed(targets) if target.directory is not None}
    return _grouped([one for one in targets if runs.get(one.run) is one], _experiment, lambda one: one.run_name)


def _experiment(target: AnalysisTarget) -> str:
    if target.config is None:
        return f"run {target.run}"
    return json.dumps({key: value for key, value in target.config.items() if key != SEED}, sort_keys=True)


def _grouped(
    targets: Sequence[AnalysisTarget], key: Callable[[AnalysisTarget], str], name: Callable[[AnalysisTarget], str]
) -> tuple[Group, ...]:
    """`name` is the label of a group of one."""
    groups: dict[str, list[AnalysisTarget]] = {}
    for target in targets:
        groups.setdefault(key(target), []).append(target)
    members = list(groups.values())
    return tuple(Group(label, tuple(one)) for label, one in zip(_labels(members, name), members, strict=True))


def _labels(groups: list[list[AnalysisTarget]], name: Callable[[AnalysisTarget], str]) -> list[str]:
    """Labels that differ by config, or by the name of the first run if the configs are not enough."""
    labels = [name(group[0]) if len(group) == 1 else _shared_name(group) for group in groups]
    first = groups[0][0].config if groups else None
    for index, group in enumerate(groups):
        config = group[0].config
        if labels.count(labels[index]) > 1 and first is not None and config is not None and index > 0:
            differences = [one for one in diff_configs(first, config) if one.key_path != SEED][:SHOWN_DIFFERENCES]
            settings = ", ".join(f"{one.key_path}={one.new}" for one in differences)
            labels[index] = f"{labels[index]} ({settings})" if settings else labels[index]
    return [
        label if labels.count(label) == 1 else f"{label} [{group[0].label}]"
        for label, group in zip(labels, groups, strict=True)
    ]


def _shared_name(group: list[AnalysisTarget]) -> str:
    names = [target.run_name for target in group]
    letters = takewhile(lambda column: len(set(column)) == 1, zip(*names, strict=False))
    shared = "".join(column[0] for column in letters).rstrip("-_.:0123456789 ")
    name = shared if len(shared) >= SHORTEST_PREFIX else group[0].recipe or group[0].run_name
    return f"{name} x{len(group)}"
