"""The half of the page that is about evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scale.simulation import simulate_workers
from scale.workers import REQUESTS_AT_ONCE, predict_evaluations

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scale.result import Result
    from scale.workers import EvaluationCosts

WORKERS = (10, 30, 100, 300, 1_000)
PER_MACHINE = 8
SIMULATED_SHARES = 20_000


def first_other_limit(costs: EvaluationCosts) -> str:
    for workers in range(1, max(WORKERS) + 1):
        prediction = predict_evaluations(costs, workers, PER_MACHINE, 10e9 / 8)
        if prediction.first_limit != "workers":
            found = rate(prediction.evaluations_per_second)
            return f"from {workers} workers on the limit is: {prediction.first_limit} ({found} evaluations/s)"
    return "up to 1,000 workers the workers themselves are the limit"


def evaluation_text(result: Result) -> str:
    if not result.evaluations:
        return "Nothing was measured: Ray is not installed, or was left out."
    rng, rows = np.random.default_rng(0), []
    for costs in result.evaluation_costs:
        for workers in WORKERS:
            prediction = predict_evaluations(costs, workers, PER_MACHINE, 10e9 / 8)
            more = predict_evaluations(costs, workers, PER_MACHINE, 10e9 / 8, drivers=4)
            simulated = simulate_workers(costs, workers, SIMULATED_SHARES, rng) / costs.shares_of(workers)
            parts = {name: prediction.limits[name] for name in ("workers", "requests at once", "driver")}
            rows.append(
                [
                    costs.name,
                    f"{workers:,}",
                    f"{costs.share_size(workers)}",
                    rate(prediction.evaluations_per_second),
                    prediction.first_limit,
                    f"{rate(min(parts.values()))} / {rate(simulated)}",
                    f"{rate(more.evaluations_per_second)} ({more.first_limit})",
                ]
            )
    head = ["evaluation", "workers", "episodes of a share", "evaluations/s", "limit"]
    head += ["workers and driver alone: formula / simulated", "with 4 commands at once"]
    return f"""{measured_evaluations(result)}

Predicted for one command, 8 workers a machine, 10 Gbit/s. A command has at most {REQUESTS_AT_ONCE} requests under way
(`cluster.evaluation.jobs.AT_ONCE`); a machine fetches the weights of a checkpoint once. Many workers get smaller
shares, so that all of them have something to do; each share costs the driver as much as a large one. Where the driver
is the limit, more workers therefore make short evaluations slower, not faster.

{table(head, rows)}"""


def measured_evaluations(result: Result) -> str:
    rows = []
    for one in result.evaluations:
        costs = next((each for each in result.evaluation_costs if each.name == one.name), None)
        model = f"{rate_here(costs, one.workers, result.cores):.1f}" if costs and costs.episodes == one.episodes else ""
        cpu = [f"{one.cpu[part] * 1e3:.1f}" for part in ("requester", "driver", "head")]
        play = sum(one.episode_samples) / len(one.episode_samples)
        rows.append(
            [
                one.name,
                f"{one.workers}",
                f"{one.episodes}",
                f"{one.evaluations_per_second:.1f}",
                model,
                f"{play * 1e3:.1f}",
                *cpu,
                f"{one.sizes['weights']:,}",
                f"{one.sizes['share']:,}",
                f"{one.sizes['episode']}",
            ]
        )
    head = ["recipe", "workers", "episodes", "evaluations/s", "model", "ms an episode"]
    head += ["CPU ms: requester", "driver", "Ray's head", "bytes: weights", "a share", "a result"]
    return f"""Measured on a Ray of this machine; CPU of one evaluation. The model's costs come from one worker, so
only two workers check it: they, the driver and Ray share {result.cores} cores.

{table(head, rows)}"""


def rate_here(costs: EvaluationCosts, workers: int, cores: int) -> float:
    """Where workers, driver and head share few cores, all their work together is a limit too."""
    shares = costs.shares_of(workers)
    playing = costs.episodes * costs.episode + shares * costs.task
    work = costs.episodes * costs.episode + shares * (costs.driver + costs.head) + costs.requester
    return min(workers / playing, cores / work)


def rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.1f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])
