"""`palaestra train KIND key=value ...`: kinds of workers other than our trainer, which know their own settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from palaestra.cli.arguments import KINDS_GROUP
from palaestra.cli.candidates import show
from palaestra.cli.output import note, print_json, print_text
from palaestra.cli.submit import print_run, request_data
from palaestra.client.calls import connect
from palaestra.config.overrides import parse_overrides
from palaestra.config.yaml import dump_yaml
from palaestra.core import plugins
from palaestra.core.errors import UsageError
from palaestra.core.run import RunRequest, RunState
from palaestra.core.worker_kind import HasDynamicSchema, Resources
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from palaestra.cli.arguments import TrainArguments
    from palaestra.core.worker_kind import Prepared, WorkerKind
    from palaestra.runs.directory import RunDirectory

RUN_ID_VARIABLE = "PALAESTRA_RUN_ID"


def train_as(train_arguments: TrainArguments, arguments: Namespace, command: str) -> int:
    """Check, then run it here in a process of its own, or hand it to the daemon."""
    _refuse_flags(arguments)
    kind: WorkerKind = plugins.load(KINDS_GROUP, train_arguments.recipe)
    request = RunRequest(
        train_arguments.recipe,
        "",
        train_arguments.overrides,
        name=train_arguments.run,
        submitted_by="cli",
        command=command,
    )
    store = RunStore()
    prepared = kind.prepare(request, Resources(os.cpu_count() or 1), store.root)
    if arguments.dry_run:
        if arguments.json:
            print_json(prepared.config)
        else:
            print_text(dump_yaml(prepared.config))
        return 0
    if arguments.detach:
        return _submit(prepared, train_arguments, command, as_json=arguments.json)
    directory = store.create(prepared.request, prepared.config, train_arguments.run or None, prepared.total_steps)
    code = _work(kind.command(directory.path), directory, is_quiet=arguments.quiet or arguments.json)
    _report(directory, code, as_json=arguments.json, is_quiet=arguments.quiet)
    return code


def kind_details(name: str, argv: Sequence[str]) -> list[str]:
    """Every setting of that kind, given those that were typed."""
    kind: WorkerKind = plugins.load(KINDS_GROUP, name)
    config = parse_overrides([word for word in argv if "=" in word])
    known = kind.schema_of(config) if isinstance(kind, HasDynamicSchema) else kind.schema()
    lines = ["", f"settings of '{name}', with their defaults:", ""]
    for key, entry in known.get("properties", {}).items():
        default = f"={show(entry['default'])}" if "default" in entry else "=…"
        lines += [f"    {key}{default}", f"        {_sentence(entry)}"]
    return lines


def _sentence(entry: dict[str, Any]) -> str:
    kinds = entry.get("type", "")
    accepted = " or ".join(map(str, entry["enum"])) if "enum" in entry else kinds
    accepted = " or ".join(accepted) if isinstance(accepted, list) else accepted
    return "; ".join(part for part in (accepted, entry.get("description", "")) if part)


def _refuse_flags(arguments: Namespace) -> None:
    given = {
        "--resume": arguments.resume,
        "--override": arguments.override,
        "--profile": arguments.profile,
        "--seeds": arguments.seeds,
        "--from-trial": arguments.from_trial,
        "--nproc": arguments.nproc > 1,
    }
    if wrong := [flag for flag, value in given.items() if value]:
        raise UsageError(f"{wrong[0]} applies to the built-in trainer only.", "Leave it out.")


def _submit(prepared: Prepared, train_arguments: TrainArguments, command: str, *, as_json: bool) -> int:
    """Submits the prepared configuration: its paths are absolute, since the daemon has another working directory."""
    request = request_data(train_arguments, 1, command) | {
        "kind": prepared.request.kind,
        "recipe": prepared.request.recipe,
        "config": prepared.request.config,
    }
    with connect() as client:
        submitted = client.submit(**request)
    return print_run(submitted, as_json=as_json, is_over=False)


def _work(command: list[str], directory: RunDirectory, *, is_quiet: bool) -> int:
    """Its output goes into the run's log, as with a daemon, and to stderr for whoever sits here."""
    environment = {**os.environ, RUN_ID_VARIABLE: directory.id}
    with (
        directory.output_file().open("ab", buffering=0) as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        ) as process,
        _forwarded_signals(process),
    ):
        assert process.stdout is not None, "asked for as a pipe"
        for line in process.stdout:
            log.write(line)
            if not is_quiet:
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
        return process.wait()


@contextmanager
def _forwarded_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A stop is the worker's to carry out; we wait for it."""
    before = {
        number: signal.signal(number, lambda number, _frame: process.send_signal(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(directory: RunDirectory, code: int, *, as_json: bool, is_quiet: bool) -> None:
    record = read_record(directory)
    if as_json:
        print_json({"run": record.id, "name": record.name, "kind": record.kind, "state": record.state}
            | {"exit_code": code, "agent_step": record.agent_step, "directory": directory.path}
            | {"summary": record.summary, "failure": record.failure})  # fmt: skip
    elif not is_quiet:
        reached = record.summary.get("episodic_return")
        judged = f", return {reached:.1f} in training" if reached is not None else ""
        why = f" {record.failure}" if record.state is RunState.FAILED else ""
        note(f"'{record.name}' is {record.state} at step {record.agent_step:,}{judged}.{why}")
