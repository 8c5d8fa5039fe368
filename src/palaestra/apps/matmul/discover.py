"""`palaestra discover FORMAT [key=value …]`: starts or resumes a search as a run."""

from __future__ import annotations

import shlex
import sys
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.agent.config import fits_agent
from palaestra.apps.matmul.config import DiscoverConfig, changed_keys
from palaestra.apps.matmul.search.flip_walk import IS_COMPILED, SLOW_WARNING
from palaestra.apps.matmul.search.run import run_flip_search
from palaestra.config.overrides import parse_overrides, split_setting
from palaestra.config.resolve import resolve_config
from palaestra.core.app import CommandResult
from palaestra.core.errors import UsageError
from palaestra.core.run import RunRequest
from palaestra.runs.documents import read_config, read_request, write_config
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from palaestra.apps.matmul.session import SearchResult
    from palaestra.runs.directory import RunDirectory

KIND = "matmul"
COLUMNS = ("format", "field", "rank", "known", "verdict", "steps", "seconds", "run")


def discover(arguments: Namespace) -> CommandResult:
    config, name = parse_settings(arguments.settings)
    command = shlex.join(["palaestra", "discover", *arguments.settings])
    print_line = _print_to_stderr if not (arguments.quiet or arguments.json) else _ignore
    if not IS_COMPILED and config.method != "agent":
        print_line(SLOW_WARNING)
    result = run_method(lambda: find_or_create_run(config, name, command), config, print_line)
    return command_result(result, config) if result else CommandResult({})  # only the leading process has a result


def parse_settings(arguments: list[str]) -> tuple[DiscoverConfig, str]:
    """The configuration and the name of the run, empty for a generated one."""
    formats = [argument for argument in arguments if "=" not in argument]
    if len(formats) != 1:
        raise UsageError(f"Expected one format, got {len(formats)}.", "For example: palaestra discover 3x3x3")
    settings = [argument for argument in arguments if "=" in argument]
    names = [value for key, value in map(split_setting, settings) if key == "run"]
    if len(names) > 1 or "" in names:
        raise UsageError("Expected one name for 'run'.", "Leave it out for a generated name.")
    overrides = parse_overrides(each for each in settings if split_setting(each)[0] != "run")
    if "format" in overrides:
        raise UsageError("The format is given without 'format='.", f"For example: palaestra discover {formats[0]}")
    return resolve_config(DiscoverConfig, None, {**overrides, "format": formats[0]}), "".join(names)


def find_or_create_run(config: DiscoverConfig, name: str, command: str) -> RunDirectory:
    """The run of that name if it is the same search, else a new run."""
    store = RunStore()
    known = store.named(name) if name else None
    plain = config.model_dump(mode="json")
    if known is None:
        request = RunRequest(KIND, f"discover {config.format}", plain, name, "cli", command)
        return store.create(request, plain, name or None)
    if read_request(known).kind != KIND:
        raise UsageError(f"The run '{name}' is of another kind.", "Choose another name with run=NAME.")
    changed = changed_keys(read_config(known), config)
    if changed:
        raise UsageError(
            f"The run '{name}' has other settings: {', '.join(changed)}.", "Choose another name with run=NAME."
        )
    write_config(known, plain)
    return known


def command_result(result: SearchResult, config: DiscoverConfig) -> CommandResult:
    data: dict[str, Any] = {
        "run": result.run,
        "name": result.name,
        "format": config.format,
        "field": result.field,
        "rank": result.rank,
        "known": result.known,
        "comparison": result.comparison,
        result.unit: result.flips,
        "steps": f"{result.flips:,} {result.unit}",
        "seconds": round(result.seconds, 3),
        "fingerprint": result.fingerprint,
        "is_new_here": result.is_new,
        "file": result.file,
    }
    keys = ("format", "field", "rank", "known", "comparison", "steps", "seconds", "name")
    method = "" if config.method == "flip" else f" method={config.method}"
    notes = [f"To continue: palaestra discover {config.format}{method} run={result.name}"]
    if result.note:
        notes.insert(0, result.note)
    rows = (tuple(data[key] for key in keys),)
    return CommandResult(data, COLUMNS, rows, tuple(notes), result.exit_code)


def _print_to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def _ignore(_text: str) -> None:
    pass


AGENT = "palaestra.apps.matmul.agent.run:run_agent"


def run_method(
    open_run: Callable[[], RunDirectory], config: DiscoverConfig, print_line: Callable[[str], None]
) -> SearchResult | None:
    """Runs the configured method; None in processes that are not the leader. Torch is loaded only for the agent.

    `open_run` finds or creates the run's directory.
    """
    if config.method == "flip" or (config.method == "auto" and not fits_agent(config.product)):
        if config.method == "auto":
            print_line(f"{config.format} is too large for the agent: only the walk runs.")
        return run_flip_search(open_run(), config, print_line)
    result: SearchResult | None = resolve_name(AGENT)(open_run, config, print_line)
    return result
