"""The queue: which runs start next, and whether their resources are free. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.core.worker_kind import Resources

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.daemon.run_entry import RunEntry


@dataclass(frozen=True)
class Placement:
    """A run that can start now, with its GPUs."""

    entry: RunEntry
    gpus: tuple[int, ...]


def sort_queue(entries: Iterable[RunEntry]) -> list[RunEntry]:
    """Returns waiting runs by priority, then by order of submission (by count, not by clock)."""
    return sorted((entry for entry in entries if entry.is_waiting), key=_sort_key)


def _sort_key(entry: RunEntry) -> tuple[int, int]:
    assert entry.submission is not None, "only a submitted run waits"
    return -entry.submission.options.priority, entry.submission.sequence


def find_placements(waiting: Iterable[RunEntry], running: Iterable[RunEntry], machine: Resources) -> list[Placement]:
    """Returns which of the `waiting` runs, given in order, can start beside the running ones.

    A run that does not fit yet reserves what it needs: a later, smaller run starts first only if it takes nothing from
    it. So no run starves, and a run that waits for a GPU holds back other runs only by its own CPUs.
    """
    running = list(running)
    used = [requirements(entry) for entry in running]
    free = _minus(machine, used)
    free_gpus = [index for index in range(machine.gpus) if index not in {g for entry in running for g in entry.gpus}]
    placements = []
    for entry in waiting:
        wanted = requirements(entry)
        if fits(wanted, free) and wanted.gpus <= len(free_gpus):
            placements.append(Placement(entry, tuple(free_gpus[: wanted.gpus])))
            free_gpus = free_gpus[wanted.gpus :]
        free = _minus(free, [wanted])
    return placements


def requirements(entry: RunEntry) -> Resources:
    return entry.submission.resources if entry.submission is not None else Resources(0, 0, 0)


def fits(wanted: Resources, free: Resources) -> bool:
    """Returns whether the resources are free; a resource that is not requested need not be."""
    pairs = ((wanted.cpus, free.cpus), (wanted.gpus, free.gpus), (wanted.memory_mb, free.memory_mb))
    return all(want == 0 or want <= have for want, have in pairs)


def used_resources(running: Iterable[RunEntry]) -> Resources:
    used = [requirements(entry) for entry in running]
    return Resources(
        cpus=sum(one.cpus for one in used),
        gpus=sum(one.gpus for one in used),
        memory_mb=sum(one.memory_mb for one in used),
    )


def _minus(whole: Resources, parts: list[Resources]) -> Resources:
    """Subtracts resources. Negative if adopted runs use more than the configured machine; then no other run fits.

    A run that takes nothing (a driver whose processes run elsewhere) always fits.
    """
    return Resources(
        cpus=whole.cpus - sum(part.cpus for part in parts),
        gpus=whole.gpus - sum(part.gpus for part in parts),
        memory_mb=whole.memory_mb - sum(part.memory_mb for part in parts),
    )
