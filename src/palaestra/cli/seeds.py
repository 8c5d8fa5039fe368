"""`palaestra train RECIPE --seeds 1..5`: many runs, one table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from palaestra.analysis.statistics import format_estimate
from palaestra.cli.output import note, print_json, print_table, print_text
from palaestra.config.resolve import resolve_training
from palaestra.config.sweep import parse_seeds
from palaestra.config.yaml import dump_yaml
from palaestra.core.errors import UsageError
from palaestra.core.executor import LOCAL
from palaestra.runs.store import runs_root
from palaestra.sweeps.seeds import default_name, seed_name, train_seeds

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.arguments import TrainArguments
    from palaestra.sweeps.seeds import SeedsReport

COLUMNS = ("seed", "run", "state", "steps", "return", "score")


def run_seeds(arguments: Namespace, train_arguments: TrainArguments, trial: str) -> int:
    """`trial`: where the settings come from, or empty."""
    seeds = parse_seeds(arguments.seeds)
    _refuse_company(arguments, train_arguments)
    if arguments.dry_run:
        _print_plan(train_arguments, seeds, as_json=arguments.json)
        return 0
    report = train_seeds(
        train_arguments.recipe,
        train_arguments.overrides,
        seeds,
        runs_root(),
        name=train_arguments.run,
        slots=arguments.slots,
        executor=train_arguments.executor or LOCAL,
        submitted_by=f"trial:{trial}" if trial else "cli",
        say=(lambda _line: None) if arguments.quiet else note,
    )
    if arguments.json:
        print_json(as_data(report))
    else:
        _print_report(report)
    return report.exit_code


def as_data(report: SeedsReport) -> dict[str, Any]:
    means = {figure: report.mean(figure) for figure in ("last_return", "score")}
    return {
        "name": report.name,
        "exit_code": report.exit_code,
        "runs": [asdict(one) for one in report.results],
        "mean": {figure: mean and asdict(mean) for figure, mean in means.items()},
    }


def _print_report(report: SeedsReport) -> None:
    rows: list[tuple[object, ...]] = [
        (one.seed, one.name, one.state, one.agent_step, one.last_return, one.score) for one in report.results
    ]
    rows.append(
        (
            "mean",
            report.name,
            "",
            "",
            format_estimate(report.mean("last_return")),
            format_estimate(report.mean("score")),
        )
    )
    print_table(COLUMNS, rows)
    for one in report.results:
        if one.failure:
            note(f"{one.name}: {one.failure}")
    if report.exit_code:
        note("Run the same command again to resume unfinished runs.")


def _print_plan(train_arguments: TrainArguments, seeds: tuple[int, ...], *, as_json: bool) -> None:
    config = resolve_training(train_arguments.recipe, {**train_arguments.overrides, "seed": seeds[0]})
    base = train_arguments.run or default_name(train_arguments.recipe, config)
    names = [seed_name(base, seed) for seed in seeds]
    if as_json:
        print_json({"runs": names, "config": config.model_dump(mode="json")})
        return
    print_text(dump_yaml(config.model_dump(mode="json")))
    note(f"{len(names)} runs that differ only in their seed: {', '.join(names)}.")


def _refuse_company(arguments: Namespace, train_arguments: TrainArguments) -> None:
    for flag, is_set in (
        ("--resume", arguments.resume),
        ("--override", bool(arguments.override)),
        ("--profile", arguments.profile),
        ("--nproc", arguments.nproc > 1 or (train_arguments.nproc or 1) > 1),
        ("--detach", arguments.detach),
    ):
        if is_set:
            raise UsageError(
                f"--seeds and {flag} exclude each other.",
                "Run the same command again to resume unfinished seeds.",
            )
