"""`palaestra eval RUN[:best|:latest|:EPOCH] ... [suite=NAME] [key=value ...]`, also called `sim`."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.targets import find_target
from palaestra.cli.candidates import run_selectors
from palaestra.cli.command import Command
from palaestra.cli.evaluation_arguments import (
    SUITE_KEY,
    add_plan_flags,
    is_cluster_argument,
    parse_cluster_arguments,
    read_deterministic,
)
from palaestra.cli.output import note, print_json, print_pairs, print_table
from palaestra.cli.parser import positive
from palaestra.cli.progress import Progress
from palaestra.config.overrides import parse_overrides, split_setting
from palaestra.config.recipes.registry import recipe_names
from palaestra.core.errors import BelowScore, RunFailed, UsageError
from palaestra.core.evaluation import Stopped
from palaestra.runner.signals import StopNow, exit_code_of, stop_on_signals
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from palaestra.cli.parser import Parser
    from palaestra.core.evaluation import SuiteReport
    from palaestra.evaluation.evaluator import Evaluator
    from palaestra.evaluation.targets import EvaluationTarget
    from palaestra.runner.signals import StopRequest

REMOTE_KEY = "remote"
OWN_KEYS = (SUITE_KEY, REMOTE_KEY)
TRUTH = {"true": True, "false": False, "": False}


@dataclass(frozen=True)
class EvalArguments:
    targets: list[str]
    suite: str
    overrides: dict[str, Any]
    is_remote: bool = False
    cluster: dict[str, Any] = field(default_factory=dict)  # settings of the Ray cluster; else as the runs say


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="run | key=value",
        help="RUN (its best, else its latest), RUN:EPOCH, a path, hub:OWNER/NAME, several; suite=NAME; remote=true",
    )
    add_plan_flags(parser)
    parser.add_flag("--repeat", action="store_true", help="evaluate batch after batch with further seeds until Ctrl-C")
    parser.add_flag(
        "--workers", type=positive, default=1, metavar="N", help="number of processes; results do not depend on it"
    )
    parser.add_flag("--video", action="store_true", help="record an MP4 of the episodes")
    parser.add_flag(
        "--replays",
        action="store_true",
        help="record each episode for 'palaestra replay', if the environment supports it",
    )
    parser.add_flag("--json", action="store_true", help="print JSON on stdout; with --repeat one line per batch")
    parser.add_flag("--min-score", type=float, metavar="X", help="exit with code 5 if the mean return is lower")


def parse_eval_arguments(argv: Sequence[str]) -> EvalArguments:
    settings = [word for word in argv if "=" in word and not is_cluster_argument(word)]
    cluster = parse_cluster_arguments(argv)
    own = {key: [split_setting(word)[1] for word in settings if split_setting(word)[0] == key] for key in OWN_KEYS}
    for key, values in own.items():
        if len(values) > 1:
            raise UsageError(f"'{key}' is set twice: {values[0]!r} and {values[1]!r}.", "Keep one of them.")
        if values == [""]:
            raise UsageError(f"'{key}=' has no value.", "Leave it out to use the run's value.")
    rest = [word for word in settings if split_setting(word)[0] not in OWN_KEYS]
    targets = [word for word in argv if "=" not in word]
    suite, remote = ("".join(own[key]) for key in OWN_KEYS)
    if remote not in TRUTH:
        raise UsageError(
            f"Invalid value for remote: {remote} (must be true or false).", "Write remote=true to evaluate on Ray."
        )
    if cluster and not TRUTH[remote]:
        key = next(iter(cluster))
        raise UsageError(
            f"cluster.{key}={cluster[key]} has no effect without remote=true.", "Write remote=true to evaluate on Ray."
        )
    return EvalArguments(targets, suite, parse_overrides(rest), TRUTH[remote], cluster)


def run(arguments: Namespace) -> int:
    eval_arguments = parse_eval_arguments(arguments.settings)
    if not eval_arguments.targets:
        raise UsageError("'palaestra eval' needs a run.", "For example: palaestra eval latest:best")
    if arguments.repeat and arguments.min_score is not None:
        raise UsageError("--repeat never ends, so --min-score has no effect.", "Leave one of them out.")
    if eval_arguments.is_remote:
        _refuse_local_things(arguments)
    for target in eval_arguments.targets:
        find_target(target, runs_root())  # reports a wrong name before torch is imported
    reports: list[SuiteReport] = []
    with stop_on_signals() as stop:
        try:
            for batch, report in evaluate_targets(eval_arguments, arguments, stop):
                if arguments.repeat:
                    show_batch(batch, report, as_json=arguments.json)
                else:
                    reports.append(report)
        except Stopped:
            note("palaestra: stopped; only complete batches are saved")
            return exit_code_of(stop.signal or signal.SIGINT)
        except StopNow as now:
            return now.exit_code
    show(reports, as_json=arguments.json)
    for report in reports:
        _demand(report, arguments.min_score)
    return 0 if all(report.complete for report in reports) else RunFailed.exit_code


def evaluate_targets(
    eval_arguments: EvalArguments, arguments: Namespace, stop: StopRequest
) -> Iterator[tuple[int, SuiteReport]]:
    """The number of each batch, counted from 1, and its report; with --repeat, all targets again and again."""
    from palaestra.evaluation.session import EvaluationCallbacks, EvaluationOptions, EvaluationSession
    from palaestra.evaluation.targets import load_target

    options = EvaluationOptions(
        suite=eval_arguments.suite,
        episodes=arguments.episodes,
        seed=arguments.seed,
        deterministic=read_deterministic(arguments),
        max_steps=arguments.max_steps,
        overrides=eval_arguments.overrides,
        video=arguments.video,
        replays=arguments.replays,
        workers=arguments.workers,
    )
    targets = [load_target(target, runs_root()) for target in eval_arguments.targets]
    with ExitStack() as stack:
        evaluators = _evaluators(targets, eval_arguments, stack)
        sessions = [EvaluationSession(one, options, each) for one, each in zip(targets, evaluators, strict=True)]
        for session in sessions:
            stack.enter_context(session)
        for batch in count() if arguments.repeat else (0,):
            for target, session in zip(eval_arguments.targets, sessions, strict=True):
                total = sum(len(plan.seeds) for plan in session.plans(batch))
                with Progress(target, batch + 1, total) as progress:
                    report = session.evaluate(batch, EvaluationCallbacks(progress.count, lambda: bool(stop)))
                yield batch + 1, report


def _evaluators(
    targets: Sequence[EvaluationTarget], eval_arguments: EvalArguments, stack: ExitStack
) -> Sequence[Evaluator | None]:
    """The Ray evaluator for each target; None: the session chooses a local one."""
    if not eval_arguments.is_remote:
        return [None] * len(targets)
    from palaestra.cluster.address import common_cluster
    from palaestra.cluster.evaluation.client import RayClient
    from palaestra.cluster.evaluation.evaluator import RayEvaluator

    cluster = common_cluster([target.directory for target in targets], eval_arguments.cluster)
    evaluator = stack.enter_context(RayClient(cluster))
    return [RayEvaluator(evaluator, target) for target in targets]


def _refuse_local_things(arguments: Namespace) -> None:
    for flag in ("video", "replays"):
        if getattr(arguments, flag):
            raise UsageError(
                f"--{flag} records on this machine, but remote=true evaluates on Ray.", "Leave one of them out."
            )
    if arguments.workers > 1:
        raise UsageError(
            f"--workers {arguments.workers} starts processes on this machine, but remote=true evaluates on Ray.",
            "Leave one of them out.",
        )


def summarize(report: SuiteReport) -> dict[str, Any]:
    first = report.reports[0].plan
    return {
        "checkpoint": report.checkpoint,
        "env": first.env_id,
        "suite": report.suite,
        "episodes": len(report.episodes),
        "mean": report.mean,
        "std": report.std,
        "min": min(report.returns),
        "max": max(report.returns),
        "deterministic": first.deterministic,
        "complete": report.complete,
        "seconds": report.seconds,
    }


def in_full(report: SuiteReport) -> dict[str, Any]:
    """For --json: the figures, and of every simulation its seeds and returns."""
    simulations = [
        {
            "simulation": one.plan.simulation,
            "category": one.plan.category,
            "env": one.plan.env_id,
            "mean": one.mean,
            "std": one.std,
            "complete": one.complete,
            "seeds": one.plan.seeds,
            "returns": one.returns,
        }
        for one in report.reports
    ]
    seeds = [episode.seed for episode in report.episodes]
    return {**summarize(report), "returns": report.returns, "seeds": seeds, "simulations": simulations}


def show(reports: list[SuiteReport], *, as_json: bool) -> None:
    if as_json:
        print_json(in_full(reports[0]) if len(reports) == 1 else {"evaluations": [in_full(one) for one in reports]})
        return
    if len(reports) == 1:
        print_pairs(summarize(reports[0]))
    for report in reports:
        _note_capped(report)
    if len(reports) > 1 or len(reports[0].reports) > 1:
        rows = [
            (report.checkpoint, one.plan.category, one.plan.simulation, len(one.episodes), one.mean, one.std)
            for report in reports
            for one in report.reports
        ]
        print_table(("checkpoint", "category", "simulation", "episodes", "mean", "std"), rows)


def show_batch(batch: int, report: SuiteReport, *, as_json: bool) -> None:
    """Printed at once: a reader of the pipe must not wait for the end, since --repeat has none."""
    if as_json:
        print_json({"batch": batch, **in_full(report)}, indent=None)
        return
    low, high = min(report.returns), max(report.returns)
    print(
        f"{report.checkpoint} | eval batch {batch} | episodes={len(report.episodes)} "
        f"avg={report.mean:.1f} min={low:.1f} max={high:.1f}",
        flush=True,
    )
    _note_capped(report)


def _note_capped(report: SuiteReport) -> None:
    capped = [episode.length for episode in report.episodes if episode.capped]
    if capped:
        note(
            f"palaestra: {len(capped)} of {len(report.episodes)} episodes of {report.checkpoint} did not end after "
            f"{max(capped):,} steps and were stopped there.\n"
            "  Set evaluation.max_steps (here: --max-steps N) for another limit."
        )


def _demand(report: SuiteReport, least: float | None) -> None:
    if least is not None and not report.mean >= least:  # a NaN is below everything
        raise BelowScore(f"The mean return {report.mean:g} of {report.checkpoint} is below --min-score {least:g}.")


def candidates(_argv: Sequence[str]) -> list[str]:
    return [*run_selectors(), *(f"{SUITE_KEY}={name}" for name in recipe_names()), f"{REMOTE_KEY}=true"]


COMMAND = Command(
    name="eval",
    summary="evaluate runs or checkpoints on fixed seeds; the score is stored in the checkpoint's sidecar",
    examples=(
        "palaestra eval latest",
        "palaestra eval first:best --episodes 5 --json",
        "palaestra eval first:latest --episodes 2 --stochastic --seed 7",
    ),
    add_arguments=add_arguments,
    run=run,
    candidates=candidates,
)
