"""`palaestra submit [RECIPE] [run=NAME] [key=value ...]`: the same words as `train`, but the daemon runs it."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.cli.arguments import parse_train_arguments
from palaestra.cli.candidates import complete_keys
from palaestra.cli.command import Command
from palaestra.cli.output import note, print_json, print_text
from palaestra.cli.parser import natural, positive
from palaestra.client.calls import connect
from palaestra.config.recipes.registry import recipe_names
from palaestra.core.errors import RunFailed
from palaestra.core.run import RunState

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.cli.arguments import TrainArguments
    from palaestra.cli.parser import Parser
    from palaestra.client.calls import Client

POLL_SECONDS = 0.5
SCRIPT_KEY = "script"  # of kinds that run one


def add_arguments(parser: Parser) -> None:
    parser.add_argument("settings", nargs="*", metavar="recipe | key=value", help="recipe and settings")
    parser.add_flag("--kind", default="native", metavar="KIND", help="kind of run: native (default), evaluate, …")
    parser.add_flag("--priority", type=int, default=0, metavar="N", help="higher runs first; default: 0")
    parser.add_flag(
        "--memory", type=natural, default=0, metavar="MB", help="memory limit; the run is killed when it uses more"
    )
    parser.add_flag("--log-bytes", type=positive, metavar="N", help="size limit of the output log")
    parser.add_flag("--dry-run", action="store_true", help="validate and print the request without submitting it")
    parser.add_flag("--wait", action="store_true", help="wait for the end of the run; exit code 1 if it did not finish")
    parser.add_flag("--json", action="store_true", help="print one JSON object on stdout")


def run(arguments: Namespace) -> int:
    train_arguments = parse_train_arguments(arguments.settings)
    kind = [] if arguments.kind == "native" else ["--kind", arguments.kind]
    command = shlex.join(["palaestra", "submit", *kind, *arguments.settings])
    with connect() as client:
        request = request_data(train_arguments, train_arguments.nproc or 1, command) | {
            "kind": arguments.kind,
            "config": from_here(train_arguments.overrides),
            "priority": arguments.priority,
            "limits": {"memory": arguments.memory, "log": arguments.log_bytes},
        }
        if arguments.dry_run:
            return _print_check(client.check(**request), as_json=arguments.json)
        submitted = client.submit(**request)
        ended = _wait(client, submitted["id"]) if arguments.wait else submitted
    return print_run(ended, as_json=arguments.json, is_over=arguments.wait)


def detach(train_arguments: TrainArguments, nproc: int, command: str, *, as_json: bool) -> int:
    """`palaestra train --detach`."""
    with connect() as client:
        submitted = client.submit(**request_data(train_arguments, nproc, command))
    return print_run(submitted, as_json=as_json, is_over=False)


def request_data(train_arguments: TrainArguments, nproc: int, command: str) -> dict[str, Any]:
    return {
        "recipe": train_arguments.recipe,
        "config": train_arguments.overrides,
        "name": train_arguments.run,
        "executor": train_arguments.executor or "local",
        "nproc": nproc,
        "submitted_by": "cli",
        "command": command,
    }


def from_here(config: dict[str, Any]) -> dict[str, Any]:
    """A script is meant as seen from here: the daemon has another working directory."""
    script = config.get(SCRIPT_KEY)
    if not isinstance(script, str) or not script:
        return config
    return {**config, SCRIPT_KEY: str(Path(script).expanduser().absolute())}


def print_run(run_data: dict[str, Any], *, as_json: bool, is_over: bool) -> int:
    name, state = run_data["name"], run_data["state"]
    if as_json:
        print_json(run_data)
    elif is_over:
        note(f"'{name}' is {state} at step {run_data['agent_step']:,}. {run_data['failure']}".rstrip())
    else:
        note(f"'{name}' ({run_data['id']}) is {state}. To watch it: palaestra top")
    return 0 if not is_over or state == RunState.FINISHED else RunFailed.exit_code


def _wait(client: Client, run_id: str) -> dict[str, Any]:
    while not RunState((found := client.run(run_id)["run"])["state"]).is_over:
        time.sleep(POLL_SECONDS)
    return dict(found)


def _print_check(checked: dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        print_json(checked)
    elif not checked["errors"]:
        print_text(checked["yaml"])
    else:
        for error in checked["errors"]:
            note(f"palaestra: {error['message']} {error['hint']}".rstrip())
    return 2 if checked["errors"] else 0


def candidates(argv: Sequence[str]) -> list[str]:
    names = [] if any("=" not in word and not word.startswith("-") for word in argv[:-1]) else recipe_names()
    return [*names, *complete_keys(argv[-1] if argv else "")]


COMMAND = Command(
    name="submit",
    summary="submit a run to the daemon",
    examples=(
        "palaestra submit cartpole run=first total_steps=1e5",
        "palaestra submit arena.tiny --priority 5 --memory 4000 --json",
        "palaestra submit --kind evaluate target=first:best episodes=50 --wait",
    ),
    add_arguments=add_arguments,
    run=run,
    candidates=candidates,
)
