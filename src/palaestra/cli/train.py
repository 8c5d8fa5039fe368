"""`palaestra train [RECIPE] [run=NAME] [executor=ray] [nproc=N] [key=value ...]`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from palaestra.api import prepare_job
from palaestra.cli.arguments import is_other_kind, parse_train_arguments
from palaestra.cli.candidates import complete_keys, key_lines
from palaestra.cli.command import Command
from palaestra.cli.output import note, print_json, print_text
from palaestra.cli.parser import positive
from palaestra.config.errors import nearest_key
from palaestra.config.keys import list_keys, section_names
from palaestra.config.off_policy import OffPolicyConfig
from palaestra.config.recipes.registry import find_recipe, recipe_names
from palaestra.config.resolve import resolve_training
from palaestra.config.train import TrainConfig
from palaestra.config.yaml import dump_yaml
from palaestra.core.errors import UsageError
from palaestra.core.executor import LOCAL
from palaestra.core.lazy_import import lazy_import
from palaestra.core.run import RunState
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.cli import other_kinds, policies, seeds, submit, sweep_arguments
    from palaestra.cli.arguments import TrainArguments
    from palaestra.cli.parser import Parser
    from palaestra.core.run import RunRecord
    from palaestra.runner import job as jobs
    from palaestra.runner import launcher
    from palaestra.runner.job import TrainOutcome
    from palaestra.training import replay_memory
else:
    policies = lazy_import("palaestra.cli.policies")
    replay_memory = lazy_import("palaestra.training.replay_memory")
    sweep_arguments = lazy_import("palaestra.cli.sweep_arguments")
    other_kinds = lazy_import("palaestra.cli.other_kinds")
    seeds = lazy_import("palaestra.cli.seeds")
    jobs = lazy_import("palaestra.runner.job")
    launcher = lazy_import("palaestra.runner.launcher")
    submit = lazy_import("palaestra.cli.submit")


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="recipe | key=value",
        help="recipe and settings; run=NAME names the run, executor=ray nproc=N trains on Ray",
    )
    parser.add_flag("--dry-run", action="store_true", help="print the complete configuration without training")
    parser.add_flag("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_flag("--resume", action="store_true", help="resume an existing run (run=NAME, else the latest)")
    parser.add_flag(
        "--override",
        action="append",
        default=[],
        metavar="KEY",
        help="accept that this key differs from the resumed run; repeatable",
    )
    parser.add_flag(
        "--without-replay-buffer",
        action="store_true",
        help="resume without the saved transitions, for example when a file of them is damaged; this is inexact",
    )
    parser.add_flag("--quiet", action="store_true", help="no status table")
    parser.add_flag(
        "--profile", action="store_true", help="profile three iterations: trace in artifacts/, table on stderr"
    )
    parser.add_flag(
        "--nproc",
        type=positive,
        default=1,
        metavar="N",
        help="number of training processes, each with ppo.env_count environments; default: 1",
    )
    parser.add_flag("--seeds", metavar="1..5", help="train one run per seed, named NAME-s1 and so on; also 1,3,7")
    parser.add_flag(
        "--slots",
        type=positive,
        metavar="N",
        help="with --seeds: number of parallel runs; default: what the cores allow",
    )
    parser.add_flag("--detach", action="store_true", help="submit to the daemon and return (see 'palaestra submit')")
    parser.add_flag(
        "--from-trial", metavar="TRIAL", help="use the settings of a sweep's trial: best, NAME:best or NAME:3"
    )


def run(arguments: Namespace) -> int:
    if arguments.from_trial:
        train_arguments, trial = sweep_arguments.parse_trial_arguments(arguments.settings, arguments.from_trial)
    else:
        train_arguments, trial = parse_train_arguments(arguments.settings), ""
    if is_other_kind(train_arguments.recipe):
        return other_kinds.train_as(train_arguments, arguments, _command(arguments, trial))
    if arguments.seeds:
        return seeds.run_seeds(arguments, train_arguments, trial)
    accepted = frozenset(_known_key(key) for key in arguments.override)
    if arguments.dry_run:
        config = resolve_training(train_arguments.recipe, train_arguments.overrides)
        _print_config(config, as_json=arguments.json)
        _print_replay_memory(config, _count(arguments.nproc, train_arguments.nproc))
        return 0
    if arguments.detach:
        return _detach(arguments, train_arguments, trial)
    with launcher.refusals_posted():
        job = prepare_job(
            train_arguments.recipe,
            train_arguments.overrides,
            run=train_arguments.run,
            resume=arguments.resume,
            accept_changes=accepted,
            without_replay_buffer=arguments.without_replay_buffer,
            quiet=arguments.quiet or arguments.json,
            profile=arguments.profile,
            nproc=_count(arguments.nproc, train_arguments.nproc),
            executor=train_arguments.executor or LOCAL,
            submitted_by="cli",
            command=_command(arguments, trial),
        )
        outcome = jobs.launcher_of(job)(job)
    if arguments.json and outcome.rank == 0:
        print_json(_result(outcome))
    elif not arguments.quiet and outcome.rank == 0:
        note(_closing_message(outcome.record))
    return outcome.exit_code


def _detach(arguments: Namespace, train_arguments: TrainArguments, trial: str) -> int:
    """What continues a run or looks over its shoulder needs this process."""
    alone = {
        "--resume": arguments.resume,
        "--override": arguments.override,
        "--without-replay-buffer": arguments.without_replay_buffer,
        "--profile": arguments.profile,
    }
    if given := [flag for flag, value in alone.items() if value]:
        raise UsageError(f"--detach and {given[0]} exclude each other.", "Train without --detach.")
    nproc = _count(arguments.nproc, train_arguments.nproc)
    return submit.detach(train_arguments, nproc, _command(arguments, trial), as_json=arguments.json)


def _count(flag: int, word: int | None) -> int:
    if word is not None and flag not in {1, word}:
        raise UsageError(f"--nproc {flag} and nproc={word} contradict each other.", "Keep one of them.")
    return flag if word is None else word


def _closing_message(record: RunRecord) -> str:
    """Where the run stands, and the one command that most people want next."""
    reached = record.summary.get("episodic_return")
    judged = f", return {reached:.1f} in training" if reached is not None else ""
    if record.state is RunState.FINISHED:
        return f"'{record.name}' is finished at step {record.agent_step:,}{judged}. Next: palaestra eval {record.name}"
    return (
        f"'{record.name}' is {record.state} at step {record.agent_step:,}{judged}. "
        f"To go on from its last checkpoint: palaestra train --resume run={record.name}"
    )


def details(argv: Sequence[str]) -> list[str]:
    """Every key; with a recipe, its values as defaults."""
    recipe = next((word for word in argv if "=" not in word and not word.startswith("-")), "")
    if is_other_kind(recipe):
        return other_kinds.kind_details(recipe, argv)
    config = find_recipe(recipe).config if recipe else TrainConfig()
    title = f"keys, with the values of '{recipe}'" if recipe else "keys, with their defaults"
    return ["", f"{title}:", *key_lines(list_keys(TrainConfig, config))]


def candidates(argv: Sequence[str]) -> list[str]:
    names = [] if any("=" not in word and not word.startswith("-") for word in argv[:-1]) else recipe_names()
    return [*names, *complete_keys(argv[-1] if argv else "")]


def _print_config(config: TrainConfig, *, as_json: bool) -> None:
    data: dict[str, Any] = config.model_dump(mode="json")
    if as_json:
        print_json(data)
    else:
        print_text(dump_yaml(data))


def _print_replay_memory(config: TrainConfig, nproc: int) -> None:
    """For algorithms with a replay buffer: how large it will be. Refuses one that does not fit, as training would."""
    if not isinstance(config.algorithm_settings, OffPolicyConfig):
        return
    interface = policies.interface_of_env(config.env)
    note(replay_memory.describe(config, interface, nproc))
    replay_memory.refuse_large_buffer(config, interface, nproc, nproc)
    replay_memory.refuse_full_disk(config, interface, runs_root(), nproc)


def _known_key(key: str) -> str:
    known = [*(info.path for info in list_keys(TrainConfig)), *section_names(TrainConfig)]
    if key not in known:
        near = nearest_key(key, known)
        hint = f"Did you mean '{near}'?" if near else "'palaestra config keys' lists all keys."
        raise UsageError(f"--override: no key named '{key}'.", hint)
    return key


def _result(outcome: TrainOutcome) -> dict[str, Any]:
    record = outcome.record
    return {
        "run": record.id,
        "name": record.name,
        "recipe": record.recipe,
        "state": record.state,
        "exit_code": outcome.exit_code,
        "epoch": record.epoch,
        "agent_step": record.agent_step,
        "directory": outcome.directory.path,
        "metrics": outcome.metrics,
    }


def _command(arguments: Namespace, trial: str) -> str:
    together = ["--nproc", str(arguments.nproc)] if arguments.nproc > 1 else []
    origin = ["--from-trial", trial] if trial else []  # by its number: which one is best may change
    return shlex.join(["palaestra", "train", *origin, *arguments.settings, *together])


COMMAND = Command(
    name="train",
    summary="train an agent, or continue a run that was interrupted",
    examples=(
        "palaestra train cartpole --dry-run",
        "palaestra train cartpole run=first total_steps=2048 --json",
        "palaestra train env.id=CartPole-v1 ppo.learning_rate=1e-3 total_steps=1024 --quiet",
    ),
    add_arguments=add_arguments,
    run=run,
    details=details,
    candidates=candidates,
)
