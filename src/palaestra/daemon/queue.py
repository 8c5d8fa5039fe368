"""Who goes next, and whether there is room: pure arithmetic over entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.core.worker_kind import Resources

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.daemon.entry import Entry


@dataclass(frozen=True)
class Place:
    """A run that can start now, and the devices it gets."""

    entry: Entry
    gpus: tuple[int, ...]


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Those that wait: the higher priority first, then who came first by count, not by clock."""
    return sorted((entry for entry in entries if entry.is_waiting), key=_rank)


def _rank(entry: Entry) -> tuple[int, int]:
    assert entry.ticket is not None, "only a run with a ticket waits"
    return -entry.ticket.terms.priority, entry.ticket.sequence


def find_places(waiting: Iterable[Entry], running: Iterable[Entry], machine: Resources) -> list[Place]:
    """Which of `waiting`, given in order, can start beside those that run.

    Who does not fit yet keeps what it needs reserved: a later and smaller one may go ahead only if that costs the
    earlier one nothing. So nobody starves, and a run that waits for a graphics card holds up no other kind of run
    beyond its own cores.
    """
    running = list(running)
    used = [needs(entry) for entry in running]
    free = _minus(machine, used)
    free_gpus = [index for index in range(machine.gpus) if index not in {g for entry in running for g in entry.gpus}]
    places = []
    for entry in waiting:
        wanted = needs(entry)
        if fits(wanted, free) and wanted.gpus <= len(free_gpus):
            places.append(Place(entry, tuple(free_gpus[: wanted.gpus])))
            free_gpus = free_gpus[wanted.gpus :]
        free = _minus(free, [wanted])
    return places


def needs(entry: Entry) -> Resources:
    return entry.ticket.resources if entry.ticket is not None else Resources(0, 0, 0)


def fits(wanted: Resources, free: Resources) -> bool:
    """What is not wanted need not be free."""
    pairs = ((wanted.cpus, free.cpus), (wanted.gpus, free.gpus), (wanted.memory_mb, free.memory_mb))
    return all(want == 0 or want <= have for want, have in pairs)


def occupied(running: Iterable[Entry]) -> Resources:
    used = [needs(entry) for entry in running]
    return Resources(
        cpus=sum(one.cpus for one in used),
        gpus=sum(one.gpus for one in used),
        memory_mb=sum(one.memory_mb for one in used),
    )


def _minus(whole: Resources, parts: list[Resources]) -> Resources:
    """May go below zero: adopted runs stay, whatever the machine was said to have since; then nobody new fits.

    A run that takes nothing (a driver whose processes are elsewhere) always fits.
    """
    return Resources(
        cpus=whole.cpus - sum(part.cpus for part in parts),
        gpus=whole.gpus - sum(part.gpus for part in parts),
        memory_mb=whole.memory_mb - sum(part.memory_mb for part in parts),
    )
