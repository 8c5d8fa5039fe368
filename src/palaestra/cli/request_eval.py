"""`palaestra request-eval TARGET ... [suite=NAME ...] [cluster.address=HOST:PORT]`: judged on Ray, kept here."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.targets import find_target
from palaestra.cli.candidates import run_names, run_selectors
from palaestra.cli.command import Command
from palaestra.cli.evaluation_arguments import (
    SUITE_KEY,
    add_plan_flags,
    is_cluster_argument,
    parse_cluster_arguments,
    read_deterministic,
)
from palaestra.cli.output import note, print_json, print_table
from palaestra.cli.progress import RequestProgress
from palaestra.config.overrides import parse_overrides, split_setting
from palaestra.config.recipes.registry import recipe_names
from palaestra.core.errors import UsageError
from palaestra.core.evaluation import Stopped
from palaestra.runner.signals import StopNow, exit_code_of, stop_on_signals
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.cli.parser import Parser
    from palaestra.cluster.evaluation.jobs import EvaluationJob
    from palaestra.runner.signals import StopRequest

ALL = ":all"
REASONS_SHOWN = 5
GOOD = ("new", "known", "twice", "done")


@dataclass(frozen=True)
class RequestArguments:
    targets: list[str]
    suites: list[str]
    overrides: dict[str, Any]
    cluster: dict[str, Any]  # settings of the Ray cluster; else as the runs say


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="run | key=value",
        help="RUN (its best, else its latest), RUN:EPOCH, RUN:all, a path; suite=NAME, also several; cluster.address=…",
    )
    add_plan_flags(parser)
    parser.add_flag("--again", action="store_true", help="also send what was evaluated before")
    parser.add_flag("--dry-run", action="store_true", help="print the requests without sending them")
    parser.add_flag("--json", action="store_true", help="print JSON on stdout")


def parse_request_arguments(argv: Sequence[str]) -> RequestArguments:
    settings = [word for word in argv if "=" in word and not is_cluster_argument(word)]
    suites = [value for key, value in map(split_setting, settings) if key == SUITE_KEY]
    if "" in suites:
        raise UsageError("'suite=' has no name.", "Leave it out to use the run's own suite.")
    rest = [word for word in settings if split_setting(word)[0] != SUITE_KEY]
    targets = [word for word in argv if "=" not in word]
    return RequestArguments(targets, suites, parse_overrides(rest), parse_cluster_arguments(argv))


def run(arguments: Namespace) -> int:
    request_arguments = parse_request_arguments(arguments.settings)
    if not request_arguments.targets:
        raise UsageError("'palaestra request-eval' needs a run.", "For example: palaestra request-eval latest:all")
    for target in request_arguments.targets:
        find_target(target.removesuffix(ALL), runs_root())  # reports a wrong name before torch is imported
    orders = _orders(request_arguments, arguments)
    if arguments.dry_run:
        show(orders, as_json=arguments.json, in_full=True)
        return 0
    with stop_on_signals() as stop:
        try:
            finished = _request(orders, request_arguments.cluster, stop)
        except StopNow as now:
            return now.exit_code
    show([finished.get(order.number, order) for order in orders], as_json=arguments.json)
    if stop:
        note("palaestra: stopped; finished evaluations are saved")
        return exit_code_of(stop.signal or signal.SIGINT)
    return exit_code([finished.get(order.number, order) for order in orders])


def _orders(request_arguments: RequestArguments, arguments: Namespace) -> list[EvaluationJob]:
    from palaestra.cluster.evaluation.jobs import make_jobs
    from palaestra.evaluation.session import EvaluationOptions

    common = EvaluationOptions(
        episodes=arguments.episodes,
        seed=arguments.seed,
        deterministic=read_deterministic(arguments),
        max_steps=arguments.max_steps,
        overrides=request_arguments.overrides,
        submitted_by="request-eval",
    )
    asked = [replace(common, suite=suite) for suite in request_arguments.suites] or [common]
    return make_jobs(request_arguments.targets, runs_root(), asked, again=arguments.again)


def _request(orders: list[EvaluationJob], cluster: dict[str, Any], stop: StopRequest) -> dict[int, EvaluationJob]:
    """Results by number, as far as they arrived before an interruption."""
    from palaestra.cluster.evaluation.jobs import request_evaluations

    new = [order for order in orders if order.status == "new"]
    finished: dict[int, EvaluationJob] = {}
    with RequestProgress(len(new), sum(order.episodes for order in new)) as progress:
        try:
            for order in request_evaluations(orders, cluster, progress.count, lambda: bool(stop)):
                finished[order.number] = order
                progress.finished(failed=order.status not in GOOD)
        except Stopped:
            return finished
    return finished


def show(orders: Sequence[EvaluationJob], *, as_json: bool, in_full: bool = False) -> None:
    if as_json:
        print_json({"evaluations": [_as_data(order, in_full=in_full) for order in orders]})
        return
    rows = [
        (_called(order), order.suite, order.episodes, order.status, order.mean, order.retries or None)
        for order in orders
    ]
    print_table(("checkpoint", "suite", "episodes", "status", "mean", "retries"), rows)
    counts = Counter(str(order.status) for order in orders)
    note(", ".join(f"{count} {status}" for status, count in counts.items()))
    _print_reasons(orders)


def exit_code(orders: Sequence[EvaluationJob]) -> int:
    """Of the first that failed."""
    return next((order.exit_code or 1 for order in orders if order.status not in GOOD), 0)


def _print_reasons(orders: Sequence[EvaluationJob]) -> None:
    """One line for each reason, however many failed for it."""
    reasons = Counter(order.error for order in orders if order.error)
    for reason, count in reasons.most_common(REASONS_SHOWN):
        note(f"palaestra: {reason}" if count == 1 else f"palaestra: {count} times: {reason}")
    if len(reasons) > REASONS_SHOWN:
        note(f"palaestra: and {len(reasons) - REASONS_SHOWN} other reasons; --json shows all.")


def _called(order: EvaluationJob) -> str:
    checkpoint = order.target.checkpoint
    return f"{checkpoint.run_name or checkpoint.run}:{checkpoint.epoch}"


def _as_data(order: EvaluationJob, *, in_full: bool) -> dict[str, Any]:
    fields = {
        "checkpoint": order.target.name,
        "suite": order.suite,
        "episodes": order.episodes,
        "status": str(order.status),
        "mean": order.mean,
        "complete": order.report is not None and order.report.complete,
        "retries": order.retries,
        "error": order.error,
        "key": order.key,
    }
    return {**fields, "request": asdict(order.request)} if in_full else fields


def candidates(_argv: Sequence[str]) -> list[str]:
    every = [f"{name}{ALL}" for name in run_names()]
    return [*run_selectors(), *every, *(f"{SUITE_KEY}={name}" for name in recipe_names())]


COMMAND = Command(
    name="request-eval",
    summary="evaluate runs or checkpoints on a Ray cluster, each on every suite; results are stored on this machine",
    examples=(
        "palaestra request-eval first:all --episodes 2 --dry-run",
        "palaestra request-eval first second suite=cartpole --episodes 2 --dry-run --json",
        "palaestra request-eval first --episodes 2",
    ),
    add_arguments=add_arguments,
    run=run,
    candidates=candidates,
)
