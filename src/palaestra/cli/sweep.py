"""`palaestra sweep RECIPE key=a,b key=lo..hi:log [method=...] [trials=...]`, `palaestra sweep list`, `sweep show`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from palaestra.cli.candidates import complete_keys, show
from palaestra.cli.command import Command, Group
from palaestra.cli.output import note, print_json, print_table
from palaestra.cli.parser import positive
from palaestra.cli.sweep_arguments import NOT_SETTINGS, OWN_KEYS, SweepArguments, parse_sweep_arguments
from palaestra.config.keys import list_keys
from palaestra.config.recipes.registry import find_recipe, recipe_names, require_extra
from palaestra.config.sweep import SweepConfig
from palaestra.core.errors import UsageError
from palaestra.runs.store import runs_root
from palaestra.sweeps.methods import importances
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.search import run_sweep
from palaestra.sweeps.store import LATEST, SweepStore, TrialState, best_of, ranking

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.cli.parser import Parser
    from palaestra.sweeps.plan import SweepPlan
    from palaestra.sweeps.store import Trial

GRAMMAR = """
values to try, for any key of 'palaestra train -h':
    key=a,b,c            one of these values
    key=lo..hi           a number between the two
    key=lo..hi:log       evenly over orders of magnitude
    key=lo..hi:int       whole numbers only
    key=lo..hi:5         five points, for a grid; also lo..hi:log:5
    key=value            the same in all trials

settings of the sweep itself:
    sweep=NAME           name of the sweep; sweep=FILE.yaml reads a sweep from a file
    executor=local       or a plugin for other machines, such as ray"""
ALLOWED_ON_RESUME = {"trials", "executor"}  # with --resume
OTHERS = """
palaestra sweep list     all sweeps
palaestra sweep show     the trials of one, the best first"""


def run_run(arguments: Namespace) -> int:
    sweep_request = _sweep_arguments(arguments)
    plan = plan_sweep(sweep_request.config)
    if plan.config.recipe:
        require_extra(plan.config.recipe, find_recipe(plan.config.recipe))
    if arguments.dry_run:
        _print_plan(plan, as_json=arguments.json)
        return 0
    if not arguments.quiet:
        note(f"sweep '{plan.name}': {plan.config.method}, {plan.trial_count} trials, metric {plan.config.metric}")
    outcome = run_sweep(
        plan,
        runs_root(),
        slots=arguments.slots,
        executor=sweep_request.executor,
        say=(lambda _line: None) if arguments.quiet or arguments.json else note,
    )
    shares = importances(plan, list(outcome.trials))
    if arguments.json:
        print_json({**as_data(plan, outcome.trials, shares), "exit_code": outcome.exit_code})
    else:
        print_trials(plan, outcome.trials, shares)
        if any(not trial.state.is_over or trial.state is TrialState.LOST for trial in outcome.trials):
            note(f"To resume: palaestra sweep --resume {plan.name}")
    return outcome.exit_code


def run_list(arguments: Namespace) -> int:
    found = SweepStore(runs_root()).list()
    rows = []
    for directory, config, trials, problem in found:
        best = best_of(trials, is_minimized=config is not None and config.direction == "minimize")
        over = sum(trial.state.is_over for trial in trials)
        rows.append(
            {
                "name": directory.name,
                "recipe": config.recipe if config else "",
                "method": config.method if config else "damaged",
                "trials": config.trials if config else 0,
                "over": over,
                "metric": config.metric if config else "",
                "best": best and best.value,
                "problem": problem,
            }
        )
    if arguments.json:
        print_json(rows)
        return 0
    table = [
        (row["name"], row["recipe"], row["method"], f"{row['over']}/{row['trials']}", row["metric"], row["best"])
        for row in rows
    ]
    empty = "No sweeps here yet. Start one: palaestra sweep cartpole ppo.gamma=0.98,0.99"
    print_table(("name", "recipe", "method", "trials", "metric", "best"), table, empty=empty)
    for row in rows:
        if row["problem"]:
            note(f"{row['name']}: {row['problem']}")
    return 0


def run_show(arguments: Namespace) -> int:
    directory = SweepStore(runs_root()).find(arguments.sweep)
    plan, trials = plan_sweep(directory.read_config()), directory.read_trials()
    shares = importances(plan, trials)
    if arguments.json:
        print_json(as_data(plan, trials, shares))
    else:
        print_trials(plan, trials, shares)
    return 0


def _sweep_arguments(arguments: Namespace) -> SweepArguments:
    """From the words; of a sweep that exists, from its own file."""
    if arguments.resume is None:
        return parse_sweep_arguments(arguments.settings)
    odd = next((word for word in arguments.settings if word.partition("=")[0] not in ALLOWED_ON_RESUME), None)
    if odd is not None:
        hint = "Only trials=MORE and executor=NAME can be said again."
        raise UsageError(f"--resume {arguments.resume} uses its own settings; remove '{odd}'.", hint)
    return parse_sweep_arguments(arguments.settings, SweepStore(runs_root()).find(arguments.resume).read_config())


def _print_plan(plan: SweepPlan, *, as_json: bool) -> None:
    if as_json:
        print_json({"name": plan.name, "config": plan.config.model_dump(mode="json"), "trials": plan.listed})
        return
    keys = [parameter.key for parameter in plan.parameters]
    rows = [(number, *(tried[key] for key in keys)) for number, tried in enumerate(plan.listed, start=1)]
    print_table(
        ("trial", *keys), rows, empty=f"{plan.config.method} chooses the trials at run time: {', '.join(keys)}."
    )
    seeds = f", seeds {', '.join(map(str, plan.config.seeds))}" if plan.config.seeds else ""
    note(f"sweep '{plan.name}': {plan.config.method}, {plan.trial_count} trials{seeds}, metric {plan.config.metric}")


def _run_arguments(parser: Parser) -> None:
    parser.add_argument(
        "settings", nargs="*", metavar="recipe | key=value", help="recipe, and the values or ranges to try"
    )
    parser.add_flag(
        "--slots", type=positive, metavar="N", help="number of parallel runs; default: what the cores allow"
    )
    parser.add_flag("--resume", metavar="NAME", help="resume a sweep by its name; trials=MORE adds trials")
    parser.add_flag(
        "--dry-run", action="store_true", help="validate everything and print the trials without running them"
    )
    parser.add_flag("--quiet", action="store_true", help="print only the final table")
    _add_json(parser)


def _show_arguments(parser: Parser) -> None:
    parser.add_argument("sweep", nargs="?", default=LATEST, help="name of the sweep; default: the most recent one")
    _add_json(parser)


def _add_json(parser: Parser) -> None:
    parser.add_flag("--json", action="store_true", help="print JSON on stdout")


def _details(_argv: Sequence[str]) -> list[str]:
    keys = [key for key in list_keys(SweepConfig) if key.path not in NOT_SETTINGS]
    lines = [line for key in keys for line in (f"    {key.path}={show(key.default)}", f"        {key.description}")]
    return [GRAMMAR, *lines, OTHERS]


def _candidates(argv: Sequence[str]) -> list[str]:
    names = [] if any("=" not in word and not word.startswith("-") for word in argv[:-1]) else recipe_names()
    return [*names, "sweep=", *(f"{key}=" for key in OWN_KEYS), *complete_keys(argv[-1] if argv else "")]


def _names(_argv: Sequence[str]) -> list[str]:
    return SweepStore(runs_root()).names()


@dataclass(frozen=True)
class SweepGroup(Group):
    """Whatever is not an action is a sweep to run."""

    def main(self, argv: list[str]) -> int:
        is_action = bool(argv) and argv[0] in self.actions
        return super().main(argv) if is_action else self.actions["run"].main(argv)


RUN = Command(
    name="sweep",
    summary="train with many settings in parallel and find the best",
    examples=(
        "palaestra sweep cartpole ppo.gamma=0.98,0.99 ppo.gae_lambda=0.8,0.95 --dry-run",
        "palaestra sweep cartpole ppo.learning_rate=1e-4..1e-2:log trials=8 seeds=1..3 --dry-run",
        "palaestra sweep cartpole ppo.learning_rate=1e-4..1e-2:log method=optuna prune=true --dry-run --json",
    ),
    add_arguments=_run_arguments,
    run=run_run,
    details=_details,
    candidates=_candidates,
)
LIST = Command(
    name="sweep list",
    summary="list all sweeps, most recent first",
    examples=("palaestra sweep list", "palaestra sweep list --json", "palaestra sweep list -h"),
    add_arguments=_add_json,
    run=run_list,
)
SHOW = Command(
    name="sweep show",
    summary="show the trials of a sweep, best first",
    examples=("palaestra sweep show lr", "palaestra sweep show latest", "palaestra sweep show lr --json"),
    add_arguments=_show_arguments,
    run=run_show,
    candidates=_names,
)
COMMAND = SweepGroup(
    name="sweep",
    summary="train with many settings in parallel and find the best",
    actions={"run": RUN, "list": LIST, "show": SHOW},
    default="run",
    examples=(
        "palaestra sweep cartpole ppo.gamma=0.98,0.99 --dry-run",
        "palaestra sweep list",
        "palaestra sweep -h",
    ),
)

BEST = "*"


def print_trials(plan: SweepPlan, trials: Sequence[Trial], shares: dict[str, float]) -> None:
    best = best_of(list(trials), is_minimized=plan.is_minimized)
    keys = [parameter.key for parameter in plan.parameters]
    columns = ("", "trial", "state", plan.config.metric, *keys, "run")
    rows = [_row(plan, trial, keys, is_best=trial is best) for trial in _ranked(plan, trials)]
    print_table(columns, rows, empty=f"The sweep '{plan.name}' has no trials yet.")
    for trial in trials:
        if trial.reason:
            note(f"trial {trial.number}: {trial.reason}")
    if shares:
        note("importance: " + ", ".join(f"{key} {share:.0%}" for key, share in shares.items()))
    if best is not None:
        note(f"Best is trial {best.number}. Next: palaestra train --from-trial {plan.name}:{best.number}")


def as_data(plan: SweepPlan, trials: Sequence[Trial], shares: dict[str, float]) -> dict[str, Any]:
    best = best_of(list(trials), is_minimized=plan.is_minimized)
    return {
        "name": plan.name,
        "config": plan.config.model_dump(mode="json"),
        "best": best and best.number,
        "importance": shares,
        "trials": [
            {**asdict(trial), "runs": [name for name, _ in plan.run_names(trial.number)]}
            for trial in _ranked(plan, trials)
        ],
    }


def _ranked(plan: SweepPlan, trials: Sequence[Trial]) -> list[Trial]:
    return ranking(list(trials), is_minimized=plan.is_minimized)


def _row(plan: SweepPlan, trial: Trial, keys: list[str], *, is_best: bool) -> tuple[object, ...]:
    names = [name for name, _ in plan.run_names(trial.number)]
    shown = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    values = (trial.settings[key] for key in keys)
    value = trial.value if trial.state is not TrialState.PRUNED else f"{trial.value:.4g} when stopped"
    return BEST if is_best else "", trial.number, trial.state, value, *values, shown
