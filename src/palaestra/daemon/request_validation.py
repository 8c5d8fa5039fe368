"""Validates requests: all errors at once, before anything is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from palaestra.core.errors import NotFound, UsageError, did_you_mean
from palaestra.core.executor import LOCAL, executor_names
from palaestra.core.worker_kind import FieldError, Prepared, RequestRefused, Resources
from palaestra.daemon.queue import fits
from palaestra.daemon.run_entry import MAX_GRACE_SECONDS, MAX_LOG_BYTES, MAX_PRIORITY, SubmissionOptions
from palaestra.runs.identity import check_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palaestra.core.run import RunRequest
    from palaestra.daemon.worker_kinds import WorkerKinds

MAX_PROCESSES = 4096
MIN_LOG_BYTES = 1 << 12


def validate_request(
    request: RunRequest,
    options: SubmissionOptions,
    kinds: WorkerKinds,
    machine: Resources,
    runs_root: Path,
    is_taken: Callable[[str], bool],
) -> Prepared:
    """Validates a request. Raises `RequestRefused` with all field errors."""
    errors = [*_check_name(request, is_taken), *_check_executor(request), *_check_options(options)]
    prepared = None
    try:
        prepared = kinds.get(request.kind).prepare(request, machine, runs_root)
    except RequestRefused as refused:
        errors += refused.field_errors
    except NotFound as error:
        errors.append(FieldError("kind", error.message, error.hint))
    if prepared is not None and not errors:
        prepared = replace(prepared, resources=_resources(prepared, options))
        errors += _check_resources(prepared.resources, machine)
    if errors or prepared is None:
        raise RequestRefused(errors)
    return prepared


def _resources(prepared: Prepared, options: SubmissionOptions) -> Resources:
    """Returns the resources on this machine; processes of another executor take none."""
    resources = prepared.resources if prepared.request.executor == LOCAL else Resources(0, 0, 0)
    return replace(resources, memory_mb=options.memory_mb or resources.memory_mb)


def _check_name(request: RunRequest, is_taken: Callable[[str], bool]) -> list[FieldError]:
    if not request.name:
        return []
    try:
        check_name(request.name)
    except UsageError as error:
        return [FieldError("name", error.message, error.hint)]
    if is_taken(request.name):
        return [FieldError("name", f"A run named '{request.name}' exists already.", "Choose another name.")]
    return []


def _check_executor(request: RunRequest) -> list[FieldError]:
    found = []
    known = executor_names()
    if request.executor not in known:
        hint = did_you_mean(request.executor, known) or f"Known: {', '.join(known)}."
        found.append(FieldError("executor", f"No executor named '{request.executor}'.", hint))
    if not 1 <= request.nproc <= MAX_PROCESSES:
        message = f"Invalid value for nproc: {request.nproc} (must be from 1 to {MAX_PROCESSES})."
        found.append(FieldError("nproc", message))
    return found


def _check_options(options: SubmissionOptions) -> list[FieldError]:
    bounds = (
        ("priority", options.priority, -MAX_PRIORITY, MAX_PRIORITY),
        ("memory_mb", options.memory_mb, 0, 1 << 31),
        ("grace_seconds", options.grace_seconds, 0.0, MAX_GRACE_SECONDS),
        ("log_bytes", options.log_bytes, MIN_LOG_BYTES, MAX_LOG_BYTES),
    )
    return [
        FieldError(key, f"Invalid value for {key}: {value} (must be from {low} to {high}).")
        for key, value, low, high in bounds
        if value is not None and not low <= value <= high
    ]


def _check_resources(wanted: Resources, machine: Resources) -> list[FieldError]:
    """Refuses a request that can never start on this machine."""
    if fits(wanted, machine):
        return []
    return [
        FieldError(
            "nproc",
            f"The run needs {wanted.cpus} CPUs, {wanted.gpus} GPUs and {wanted.memory_mb} MB; "
            f"the daemon has {machine.cpus}, {machine.gpus} and {machine.memory_mb}.",
            "Request less, or use an executor on other machines.",
        )
    ]
