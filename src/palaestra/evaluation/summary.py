"""`eval_summary.json`: one entry per batch of episodes, oldest first. The file is replaced atomically.

An entry is a line, so that adding one copies the others without encoding them again: a run may have thousands.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.files import open_regular_file
from palaestra.core.errors import DamagedFile, NotFound
from palaestra.runs.files import finite, read_json, stamped, unstamped, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.core.evaluation import EvaluationReport, SuiteReport
    from palaestra.runs.directory import RunDirectory

SCHEMA_VERSION = 1
MAX_BYTES = 128 << 20  # some 200,000 batches of one simulation
LAST_BYTES = 64 << 10  # more than an entry of a usual suite
TAIL = "\n  ]\n}\n"
SEPARATOR = ",\n    "


def describe(report: EvaluationReport | SuiteReport) -> dict[str, Any]:
    """The figures of a batch, as the summary, the journal and the tables show them."""
    return {
        "episodes": len(report.episodes),
        "avg": report.mean,
        "mean": report.mean,
        "min": min(report.returns),
        "max": max(report.returns),
        "std": report.std,
        "seconds": report.seconds,
        "capped": sum(episode.capped for episode in report.episodes),  # stopped at evaluation.max_steps
    }


def append_batch(directory: RunDirectory, batch: dict[str, Any]) -> int:
    """Adds one entry and returns its number, counted from 1; safe for several processes at once."""
    with only_writer(directory):
        return add_batch(directory, read_batches(directory), batch)


def add_batch(directory: RunDirectory, batches: list[dict[str, Any]], batch: dict[str, Any]) -> int:
    """The same for a caller that holds `only_writer` and has read the others."""
    path, number = directory.eval_summary_file, len(batches) + 1
    before = path.read_text(encoding="utf-8") if batches else ""
    line = _line({"batch": number, **batch})
    if before.endswith(f"}}{TAIL}"):
        text = f"{before.removesuffix(TAIL)}{SEPARATOR}{line}{TAIL}"
    else:  # the first entry, or a file in a different layout
        head = json.dumps(stamped({"run": directory.id}, SCHEMA_VERSION), indent=2).removesuffix("\n}")
        text = f'{head},\n  "batches": [\n    {SEPARATOR.join([*map(_line, batches), line])}{TAIL}'
    write_atomic(path, text.encode("utf-8", errors="backslashreplace"))
    return number


def _line(batch: dict[str, Any]) -> str:
    return json.dumps(finite(batch), ensure_ascii=False, allow_nan=False)


def read_batches(directory: RunDirectory) -> list[dict[str, Any]]:
    """Oldest first; empty when the run was never evaluated."""
    path = directory.eval_summary_file
    try:
        data = unstamped(read_json(path, MAX_BYTES, follow_links=False), SCHEMA_VERSION, path)
    except NotFound:
        return []
    batches = data.get("batches")
    if not isinstance(batches, list) or not all(isinstance(batch, dict) for batch in batches):
        raise DamagedFile(f"{path} holds no list of batches.", "Move it away; the next evaluation starts a new one.")
    return batches


def read_newest_batch(directory: RunDirectory) -> list[dict[str, Any]]:
    """The last entry or none, at a cost that does not grow with their number: a viewer reads it every second."""
    try:
        with open_regular_file(directory.eval_summary_file, MAX_BYTES, follow_links=False) as (stream, size):
            stream.seek(max(0, size - LAST_BYTES))
            tail = stream.read(LAST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return []
    try:
        newest = json.loads(tail.removesuffix(TAIL.encode()).rpartition(b"\n")[2])
    except (ValueError, RecursionError):
        newest = None
    if tail.endswith(TAIL.encode()) and isinstance(newest, dict) and "batch" in newest:
        return [newest]
    return read_batches(directory)[-1:]  # a different layout, or an entry longer than what was read


@contextmanager
def only_writer(directory: RunDirectory) -> Iterator[None]:
    """A lock between processes, on the directory itself, so that a killed process leaves nothing behind."""
    directory.evaluations.mkdir(exist_ok=True)
    descriptor = os.open(directory.evaluations, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
