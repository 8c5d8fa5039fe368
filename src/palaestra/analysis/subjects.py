"""Whom an analysis is about: what was typed, as runs and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.analysis.judgements import judged_epochs
from palaestra.checkpoints.reading import survey
from palaestra.checkpoints.selection import epoch_of_path, from_best
from palaestra.checkpoints.targets import FILE_ENDINGS, Target, find_target
from palaestra.core.errors import DamagedFile, NotFound
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config
from palaestra.runs.status import read_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.checkpoints.reading import Survey
    from palaestra.core.checkpoint import Checkpoint

SEED = "seed"  # what may differ within a group


@dataclass(frozen=True)
class Subject:
    target: str  # as typed
    selector: str  # best, latest or an epoch, as typed; empty: none was
    label: str  # what it is called in every table
    run: str  # id
    run_name: str
    recipe: str
    found: Target
    directory: RunDirectory | None  # None: a checkpoint that came without its run
    epoch: int | None  # None: the run has saved nothing yet
    checkpoint: Checkpoint | None  # None: gone since it was judged, or damaged
    config: dict[str, Any] | None  # as run, with the seed; None: cannot be read
    notes: tuple[str, ...] = ()


def find_subjects(targets: Sequence[str], runs_root: Path | None = None) -> tuple[Subject, ...]:
    """In the order of the targets; the same checkpoint, meant twice, is there once."""
    found: dict[tuple[str, int | None], Subject] = {}
    for target in targets:
        subject = _find_subject(target, runs_root)
        found.setdefault((subject.run, subject.epoch), subject)
    labels = [subject.label for subject in found.values()]
    return tuple(
        subject if labels.count(subject.label) == 1 else replace(subject, label=f"{subject.label} {subject.run[-6:]}")
        for subject in found.values()
    )


def _find_subject(target: str, runs_root: Path | None) -> Subject:
    found = find_target(target, runs_root)
    is_file = target.endswith(FILE_ENDINGS)
    selector = str(found.selector) if ":" in target and not is_file else ""
    directory = _run_of(found)
    seen = survey(found.directory)
    judged = [] if directory is None else judged_epochs(directory)
    if is_file:
        epoch: int | None = _demand_epoch(epoch_of_path(Path(target)), seen, [], found)
        selector = str(epoch)
    else:
        epoch = _choose(selector, seen, judged, found)
    checkpoint = next((one for one in seen.checkpoints if one.epoch == epoch), None)
    notes = [f"Damaged: {one.reason}" for one in seen.refused]
    if directory is None:
        assert checkpoint is not None, "a file is either there or refused"
        run, name, recipe, config = checkpoint.run, checkpoint.run_name, "", None
    else:
        record = read_record(directory)
        run, name, recipe = directory.id, record.name, record.recipe
        config = _config_of(directory, notes)
    label = name if epoch is None else f"{name}:{epoch}"
    return Subject(
        target, selector, label, run, name, recipe, found, directory, epoch, checkpoint, config, tuple(notes)
    )


def _choose(selector: str, seen: Survey, judged: list[int], found: Target) -> int | None:
    """Without a selector the best is meant, else the last that was judged, else the last."""
    saved = [one.epoch for one in seen.checkpoints]
    ranked = [one.epoch for one in from_best(seen.checkpoints)]
    match selector:
        case "":
            return next(iter([*ranked[:1], *judged[-1:], *saved[-1:]]), None)
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
            return _demand_epoch(int(selector), seen, judged, found)


def _demand_epoch(epoch: int, seen: Survey, judged: list[int], found: Target) -> int:
    """One that was judged may be gone by now; its episodes are still there."""
    there = sorted({*judged, *(one.epoch for one in seen.checkpoints)})
    if epoch in there:
        return epoch
    for refused in seen.refused:
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
