"""The one door for requests: everything that is wrong with one is said at once, before anything is on disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from palaestra.core.errors import NotFound, UsageError, did_you_mean
from palaestra.core.executor import LOCAL, executor_names
from palaestra.core.worker_kind import FieldError, Prepared, RequestRefused, Resources
from palaestra.daemon.queue import fits
from palaestra.daemon.ticket import HIGHEST_PRIORITY, LARGEST_LOG, LONGEST_GRACE, Terms
from palaestra.runs.identity import check_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palaestra.core.run import RunRequest
    from palaestra.daemon.kinds import Kinds

MOST_PROCESSES = 4096
SMALLEST_LOG = 1 << 12


def check_request(
    request: RunRequest,
    terms: Terms,
    kinds: Kinds,
    machine: Resources,
    runs_root: Path,
    is_taken: Callable[[str], bool],
) -> Prepared:
    """What the request becomes; `RequestRefused` with every complaint otherwise."""
    complaints = [*_about_name(request, is_taken), *_about_place(request), *_about_terms(terms)]
    prepared = None
    try:
        prepared = kinds.get(request.kind).prepare(request, machine, runs_root)
    except RequestRefused as refused:
        complaints += refused.field_errors
    except NotFound as error:
        complaints.append(FieldError("kind", error.message, error.hint))
    if prepared is not None and not complaints:
        prepared = replace(prepared, resources=_resources(prepared, terms))
        complaints += _about_room(prepared.resources, machine)
    if complaints or prepared is None:
        raise RequestRefused(complaints)
    return prepared


def _resources(prepared: Prepared, terms: Terms) -> Resources:
    """Processes that somebody else places take nothing here."""
    own = prepared.resources if prepared.request.executor == LOCAL else Resources(0, 0, 0)
    return replace(own, memory_mb=terms.memory_mb or own.memory_mb)


def _about_name(request: RunRequest, is_taken: Callable[[str], bool]) -> list[FieldError]:
    if not request.name:
        return []
    try:
        check_name(request.name)
    except UsageError as error:
        return [FieldError("name", error.message, error.hint)]
    if is_taken(request.name):
        return [FieldError("name", f"There is already a run called '{request.name}'.", "Choose another name.")]
    return []


def _about_place(request: RunRequest) -> list[FieldError]:
    found = []
    known = executor_names()
    if request.executor not in known:
        hint = did_you_mean(request.executor, known) or f"Known: {', '.join(known)}."
        found.append(FieldError("executor", f"No executor named '{request.executor}'.", hint))
    if not 1 <= request.nproc <= MOST_PROCESSES:
        wanted = f"It is a number from 1 to {MOST_PROCESSES}."
        found.append(FieldError("nproc", f"'nproc={request.nproc}' cannot be.", wanted))
    return found


def _about_terms(terms: Terms) -> list[FieldError]:
    bounds = (
        ("priority", terms.priority, -HIGHEST_PRIORITY, HIGHEST_PRIORITY),
        ("memory_mb", terms.memory_mb, 0, 1 << 31),
        ("grace_seconds", terms.grace_seconds, 0.0, LONGEST_GRACE),
        ("log_bytes", terms.log_bytes, SMALLEST_LOG, LARGEST_LOG),
    )
    return [
        FieldError(key, f"'{key}={value}' cannot be.", f"It is a number from {low} to {high}.")
        for key, value, low, high in bounds
        if value is not None and not low <= value <= high
    ]


def _about_room(wanted: Resources, machine: Resources) -> list[FieldError]:
    """What could never start is not queued."""
    if fits(wanted, machine):
        return []
    return [
        FieldError(
            "nproc",
            f"It needs {wanted.cpus} CPUs, {wanted.gpus} GPUs and {wanted.memory_mb} MB at once; "
            f"this daemon has {machine.cpus}, {machine.gpus} and {machine.memory_mb}.",
            "Ask for less, or for an executor that places it elsewhere.",
        )
    ]
