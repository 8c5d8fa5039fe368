"""`palaestra eval RUN[:best|:latest|:EPOCH] [key=value ...]`, also called `sim`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.targets import find_target
from palaestra.cli.command import Command
from palaestra.cli.output import print_json, print_pairs
from palaestra.cli.parser import natural, positive
from palaestra.cli.targets import run_selectors
from palaestra.cli.words import split_target
from palaestra.config.evaluation import EvaluationConfig
from palaestra.config.overrides import parse_overrides
from palaestra.contracts.errors import BelowScore, UsageError
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser
    from palaestra.contracts.evaluation import EvaluationReport

DEFAULTS = EvaluationConfig()


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="run | key=value",
        help="RUN (its best, else its latest), RUN:latest, RUN:EPOCH or a path; settings",
    )
    parser.add_flag("--episodes", type=positive, default=DEFAULTS.episodes, metavar="N", help="default: %(default)s")
    parser.add_flag(
        "--seed",
        type=natural,
        default=DEFAULTS.seed,
        metavar="N",
        help="of the first episode, the others follow; default: %(default)s",
    )
    parser.add_flag("--stochastic", action="store_true", help="sample actions instead of taking the likeliest")
    parser.add_flag("--video", action="store_true", help="record an MP4 of the episodes")
    parser.add_flag(
        "--replays", action="store_true", help="record each episode for 'palaestra replay', where it can be"
    )
    parser.add_flag("--json", action="store_true", help="one JSON object on stdout, nothing else there")
    parser.add_flag("--min-score", type=float, metavar="X", help="exit code 5 when the mean return is below")


def run(arguments: Namespace) -> int:
    target, settings = split_target(arguments.words)
    if not target:
        raise UsageError("'palaestra eval' needs a run.", "For example: palaestra eval latest:best")
    overrides = parse_overrides(settings)
    find_target(target, runs_root())  # a slip in the name is told before torch is loaded
    from palaestra.evaluation.local import evaluate_target

    report = evaluate_target(
        target,
        runs_root(),
        episodes=arguments.episodes,
        seed=arguments.seed,
        deterministic=not arguments.stochastic,
        video=arguments.video,
        replays=arguments.replays,
        overrides=overrides or None,
    )
    summary = summarize(report)
    if arguments.json:
        print_json({**summary, "returns": report.returns, "seeds": report.plan.seeds})
    else:
        print_pairs(summary)
    _demand(report.mean, arguments.min_score)
    return 0


def summarize(report: EvaluationReport) -> dict[str, Any]:
    return {
        "checkpoint": report.plan.checkpoint,
        "env": report.plan.env_id,
        "episodes": len(report.episodes),
        "mean": report.mean,
        "std": report.std,
        "min": min(report.returns),
        "max": max(report.returns),
        "deterministic": report.plan.deterministic,
        "complete": report.complete,
        "seconds": report.seconds,
    }


def _demand(mean: float, least: float | None) -> None:
    if least is not None and not mean >= least:  # a NaN is below everything
        raise BelowScore(f"The mean return {mean:g} is below --min-score {least:g}.")


COMMAND = Command(
    name="eval",
    summary="judge a run or a checkpoint over fixed seeds; the score goes into the checkpoint's sidecar",
    examples=(
        "palaestra eval latest",
        "palaestra eval first:best --episodes 5 --json",
        "palaestra eval first:latest --episodes 2 --stochastic --seed 7",
    ),
    add_arguments=add_arguments,
    run=run,
    candidates=lambda _words: run_selectors(),
)
