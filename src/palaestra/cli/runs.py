"""`palaestra runs [list|show|stop|rm|diff|disk]`."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from palaestra.cli.candidates import run_names
from palaestra.cli.command import Command, Group
from palaestra.cli.output import note, print_json, print_pairs, print_table, print_text
from palaestra.config.yaml import dump_yaml
from palaestra.core.byte_counts import format_bytes
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.run import UNREADABLE
from palaestra.daemon.settings import DaemonDirectory
from palaestra.runs.disk_use import measure_disk_use
from palaestra.runs.documents import ABSENT, diff_configs, format_differences, read_config
from palaestra.runs.processes import terminate
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.cli.parser import Parser
    from palaestra.core.run import RunRecord
    from palaestra.runs.directory import RunDirectory
    from palaestra.runs.disk_use import DiskUse

POLL_SECONDS = 0.1


def run_list(arguments: Namespace) -> int:
    records = [one for one in RunStore().list() if not arguments.state or one.state == arguments.state]
    if arguments.json:
        print_json(records)
        return 0
    rows = [(one.name, one.id, one.recipe, _state(one), _progress(one), _when(one.created_at)) for one in records]
    empty = "No runs here yet. Start one: palaestra train cartpole"
    print_table(("name", "id", "recipe", "state", "steps", "created"), rows, empty=empty)
    for one in records:
        if one.kind == UNREADABLE:
            note(f"{one.name}: {one.failure}")
    return 0


def _state(record: RunRecord) -> str:
    return "unreadable" if record.kind == UNREADABLE else record.state


def run_show(arguments: Namespace) -> int:
    directory = RunStore().resolve(arguments.run)
    record, config = read_record(directory), read_config(directory)
    if arguments.json:
        print_json({**asdict(record), "directory": directory.path, "config": config})
        return 0
    pairs: dict[str, object] = {
        "name": record.name,
        "id": record.id,
        "recipe": record.recipe or "none",
        "state": record.state,
        "steps": _progress(record),
        "epoch": record.epoch,
        "created": _when(record.created_at),
        "ended": _when(record.ended_at),
        "exit code": record.exit_code,
        "failure": record.failure or None,
        "directory": directory.path,
    }
    print_pairs(pairs | dict(record.summary))
    print_text("\n" + dump_yaml(config))
    return 0


def run_stop(arguments: Namespace) -> int:
    directory = RunStore().resolve(arguments.run)
    record = read_record(directory)
    if record.state.is_over:
        note(f"Run '{record.name}' is already {record.state}.")
        return 0
    if record.pid is None or record.pid_started_at is None:
        raise UsageError(f"Run '{record.name}' is {record.state} and has no process to stop.")
    terminate(record.pid, record.pid_started_at)
    note(f"Run '{record.name}' (process {record.pid}) is stopping: it finishes its update and saves.")
    return _wait_until_over(directory, arguments.wait) if arguments.wait is not None else 0


def run_remove(arguments: Namespace) -> int:
    """All are looked up before any is removed: a slip in the last name costs nothing."""
    store = RunStore()
    directories = {store.resolve(name).id: name for name in arguments.runs}
    for run_id in directories:
        note(f"Removed run '{store.remove(run_id).name}' ({run_id}).")
    return 0


def run_diff(arguments: Namespace) -> int:
    store = RunStore()
    old, new = (read_config(store.resolve(name)) for name in (arguments.old, arguments.new))
    found = diff_configs(old, new)
    if arguments.json:
        print_json([{"key": one.key_path, "old": _or_none(one.old), "new": _or_none(one.new)} for one in found])
    elif found:
        print_text(format_differences(found))
    else:
        note("The two configurations are equal.")
    return 0


def _wait_until_over(directory: RunDirectory, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while not (record := read_record(directory)).state.is_over:
        if time.monotonic() > deadline:
            raise RunFailed(f"Run '{record.name}' is still {record.state} after {seconds:g} s.")
        time.sleep(POLL_SECONDS)
    note(f"Run '{record.name}' is {record.state}.")
    return 0


def _progress(record: RunRecord) -> str:
    return f"{record.agent_step}/{record.total_steps}" if record.total_steps else str(record.agent_step)


def _when(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _or_none(value: Any) -> Any:
    return None if value is ABSENT else value


def _add_json(parser: Parser) -> None:
    parser.add_flag("--json", action="store_true", help="print JSON on stdout")


def _list_arguments(parser: Parser) -> None:
    parser.add_flag("--state", metavar="STATE", help="only runs in this state, e.g. running")
    _add_json(parser)


def _show_arguments(parser: Parser) -> None:
    parser.add_argument("run", help="id, prefix of an id, name, or latest")
    _add_json(parser)


def _stop_arguments(parser: Parser) -> None:
    parser.add_argument("run", help="id, prefix of an id, name, or latest")
    parser.add_flag(
        "--wait", type=float, metavar="SECONDS", help="wait for the end of the run; exit code 1 if it takes longer"
    )


def _remove_arguments(parser: Parser) -> None:
    parser.add_argument("runs", nargs="+", metavar="run", help="ids, names, or latest")


def _diff_arguments(parser: Parser) -> None:
    parser.add_argument("old", help="a run")
    parser.add_argument("new", help="another run")
    _add_json(parser)


def _names(_argv: Sequence[str]) -> list[str]:
    return run_names()


LIST = Command(
    name="runs list",
    summary="all runs, newest first",
    examples=("palaestra runs", "palaestra runs list --state finished", "palaestra runs list --json"),
    add_arguments=_list_arguments,
    run=run_list,
)
SHOW = Command(
    name="runs show",
    summary="show a run: state, summary, configuration",
    examples=("palaestra runs show latest", "palaestra runs show first", "palaestra runs show first --json"),
    add_arguments=_show_arguments,
    run=run_show,
    candidates=_names,
)
STOP = Command(
    name="runs stop",
    summary="stop a run after its current update, with a checkpoint",
    examples=("palaestra runs stop latest", "palaestra runs stop first --wait 30", "palaestra runs stop -h"),
    add_arguments=_stop_arguments,
    run=run_stop,
    candidates=_names,
)
REMOVE = Command(
    name="runs rm",
    summary="delete runs with all their files",
    examples=("palaestra runs rm first", "palaestra runs rm second third", "palaestra runs rm -h"),
    add_arguments=_remove_arguments,
    run=run_remove,
    candidates=_names,
)
DIFF = Command(
    name="runs diff",
    summary="show the differences between two configurations",
    examples=(
        "palaestra runs diff first second",
        "palaestra runs diff first latest",
        "palaestra runs diff first second --json",
    ),
    add_arguments=_diff_arguments,
    run=run_diff,
    candidates=_names,
)


SHOWN_PARTS = 3


def run_disk(arguments: Namespace) -> int:
    store = RunStore()
    ids = [store.resolve(name).id for name in arguments.runs] or [record.id for record in store.list()]
    home = DaemonDirectory(store.root)
    measured = [(run_id, measure_disk_use(store.directory(run_id), home.series_directory(run_id))) for run_id in ids]
    measured.sort(key=lambda one: -one[1].total)
    names = {record.id: record.name for record in store.list()}
    if arguments.json:
        print_json([{"id": one, "name": names[one], "bytes": use.total, "parts": use.parts} for one, use in measured])
        return 0
    rows = [(names[one], one, format_bytes(use.total), _largest_parts(use)) for one, use in measured]
    if len(rows) > 1:
        rows.append(("all", "", format_bytes(sum(use.total for _, use in measured)), ""))
    print_table(
        ("name", "id", "disk", "largest parts"), rows, empty="No runs here yet. Start one: palaestra train cartpole"
    )
    return 0


def _largest_parts(use: DiskUse) -> str:
    return ", ".join(f"{part} {format_bytes(size)}" for part, size in list(use.parts.items())[:SHOWN_PARTS])


def _disk_arguments(parser: Parser) -> None:
    parser.add_argument("runs", nargs="*", metavar="run", help="ids, names, or latest; all runs without one")
    parser.add_flag("--json", action="store_true", help="print JSON on stdout")


DISK = Command(
    name="runs disk",
    summary="show the disk space of runs, largest first",
    examples=("palaestra runs disk", "palaestra runs disk latest", "palaestra runs disk --json"),
    add_arguments=_disk_arguments,
    run=run_disk,
    candidates=_names,
)

COMMAND = Group(
    name="runs",
    summary="manage the runs of this directory",
    actions={"list": LIST, "show": SHOW, "stop": STOP, "rm": REMOVE, "diff": DIFF, "disk": DISK},
    default="list",
    examples=("palaestra runs", "palaestra runs show latest", "palaestra runs list --json"),
)
