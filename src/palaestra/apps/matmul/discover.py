"""`palaestra discover FORMAT [key=value …]`: a search as an ordinary run; the same words again go on with it."""

from __future__ import annotations

import shlex
import sys
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.agent.config import fits_agent
from palaestra.apps.matmul.config import DiscoverConfig, changed_keys
from palaestra.apps.matmul.search.flip_walk import IS_COMPILED, SLOW
from palaestra.apps.matmul.search.run import Outcome, run_discovery
from palaestra.config.overrides import parse_overrides, split_word
from palaestra.config.resolve import resolve_config
from palaestra.core.app import CommandResult
from palaestra.core.errors import UsageError
from palaestra.core.run import RunRequest
from palaestra.runs.documents import read_config, read_request, write_config
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from palaestra.apps.matmul.search.run import Outcome
    from palaestra.runs.directory import RunDirectory

KIND = "matmul"
COLUMNS = ("format", "field", "rank", "known", "verdict", "steps", "seconds", "run")


def discover(arguments: Namespace) -> CommandResult:
    config, name = read_words(arguments.words)
    command = shlex.join(["palaestra", "discover", *arguments.words])
    say = _say if not (arguments.quiet or arguments.json) else _hush
    if not IS_COMPILED and config.method != "agent":
        say(SLOW)
    outcome = run_method(lambda: find_or_make(config, name, command), config, say)
    return answer(outcome, config) if outcome else CommandResult({})  # of several processes the leader answers


def read_words(words: list[str]) -> tuple[DiscoverConfig, str]:
    """The configuration, and the run's name, empty for a new one."""
    formats = [word for word in words if "=" not in word]
    if len(formats) != 1:
        raise UsageError(f"One format is wanted, not {len(formats)}.", "For example: palaestra discover 3x3x3")
    settings = [word for word in words if "=" in word]
    names = [value for key, value in map(split_word, settings) if key == "run"]
    if len(names) > 1 or "" in names:
        raise UsageError("'run' wants one name.", "Leave it out for a generated one.")
    overrides = parse_overrides(word for word in settings if split_word(word)[0] != "run")
    if "format" in overrides:
        raise UsageError("The format stands alone, without 'format='.", f"For example: palaestra discover {formats[0]}")
    return resolve_config(DiscoverConfig, None, {**overrides, "format": formats[0]}), "".join(names)


def find_or_make(config: DiscoverConfig, name: str, command: str) -> RunDirectory:
    """A run of that name goes on, if it is the same search."""
    store = RunStore()
    known = store.named(name) if name else None
    plain = config.model_dump(mode="json")
    if known is None:
        request = RunRequest(KIND, f"discover {config.format}", plain, name, "cli", command)
        return store.create(request, plain, name or None)
    if read_request(known).kind != KIND:
        raise UsageError(f"'{name}' is a run of another kind.", "Choose another name with run=NAME.")
    changed = changed_keys(read_config(known), config)
    if changed:
        raise UsageError(
            f"'{name}' searches with other settings: {', '.join(changed)}.", "Choose another name with run=NAME."
        )
    write_config(known, plain)
    return known


def answer(outcome: Outcome, config: DiscoverConfig) -> CommandResult:
    data: dict[str, Any] = {
        "run": outcome.run,
        "name": outcome.name,
        "format": config.format,
        "field": outcome.field,
        "rank": outcome.rank,
        "known": outcome.known,
        "comparison": outcome.comparison,
        outcome.unit: outcome.flips,
        "steps": f"{outcome.flips:,} {outcome.unit}",
        "seconds": round(outcome.seconds, 3),
        "fingerprint": outcome.fingerprint,
        "is_new_here": outcome.is_new,
        "file": outcome.file,
    }
    keys = ("format", "field", "rank", "known", "comparison", "steps", "seconds", "name")
    method = "" if config.method == "flip" else f" method={config.method}"
    notes = [f"To search on: palaestra discover {config.format}{method} run={outcome.name}"]
    if outcome.remark:
        notes.insert(0, outcome.remark)
    rows = (tuple(data[key] for key in keys),)
    return CommandResult(data, COLUMNS, rows, tuple(notes), outcome.exit_code)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _hush(_text: str) -> None:
    pass


AGENT = "palaestra.apps.matmul.agent.run:run_agent"


def run_method(
    open_run: Callable[[], RunDirectory], config: DiscoverConfig, say: Callable[[str], None]
) -> Outcome | None:
    """What came of it; None in a process that only helps another. `open_run` finds or makes the run's directory."""
    if config.method == "flip" or (config.method == "auto" and not fits_agent(config.product)):
        if config.method == "auto":
            say(f"{config.format} is too large for the agent: the walk goes alone.")
        return run_discovery(open_run(), config, say)
    outcome: Outcome | None = resolve_name(AGENT)(open_run, config, say)
    return outcome
