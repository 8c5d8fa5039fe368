"""Targets times suites as requests to judge, without those that are known: what `palaestra request-eval` sends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from palaestra.evaluation.plans import key_of, make_plans, make_request
from palaestra.evaluation.records import RecordOptions
from palaestra.evaluation.session import EvaluationOptions, choose_suite
from palaestra.evaluation.summary import read_batches
from palaestra.evaluation.targets import find_targets

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from palaestra.core.evaluation import EvaluationRequest, SuiteReport
    from palaestra.evaluation.targets import EvaluationTarget
    from palaestra.runs.directory import RunDirectory


class Status(StrEnum):
    NEW = "new"  # is to be sent
    KNOWN = "known"  # the same weights played the same seeds before
    TWICE = "twice"  # another order of this request comes to the same
    DONE = "done"
    PARTIAL = "partial"  # some episodes were lost too often
    FAILED = "failed"


@dataclass(frozen=True)
class Order:
    """One checkpoint in one suite."""

    number: int  # among those asked for together, from 0
    target: EvaluationTarget
    request: EvaluationRequest
    options: RecordOptions
    key: str  # equal for orders whose results are equal
    status: Status = Status.NEW
    mean: float | None = None  # of a known one
    error: str = ""
    exit_code: int = 0
    retries: int = 0  # of shares that were lost on the way
    report: SuiteReport | None = None  # of a new one, once it was played

    @property
    def suite(self) -> str:
        return self.request.plans[0].suite

    @property
    def episodes(self) -> int:
        return sum(len(plan.seeds) for plan in self.request.plans)


def make_orders(
    targets: Iterable[str], runs_root: Path, asked: Iterable[EvaluationOptions], *, again: bool = False
) -> list[Order]:
    """All targets in all suites that are asked for; nothing is loaded, played or sent."""
    wanted = list(asked)
    orders: list[Order] = []
    for target in targets:
        for found in find_targets(target, runs_root):
            orders.extend(_order(number, found, one) for number, one in enumerate(wanted, len(orders)))
    return _without_doubles(orders, again=again)


def _order(number: int, target: EvaluationTarget, asked: EvaluationOptions) -> Order:
    suite, counts = choose_suite(target, asked)
    plans = make_plans(
        target.name,
        suite,
        episodes=asked.episodes,
        seed=asked.seed,
        deterministic=asked.deterministic,
        max_steps=asked.max_steps,
    )
    request = make_request(target.checkpoint, plans)
    options = RecordOptions(dict(asked.overrides), counts, asked.submitted_by)
    return Order(number, target, request, options, key_of(request.weights, plans))


def _without_doubles(orders: list[Order], *, again: bool) -> list[Order]:
    known: dict[Path, dict[str, float]] = {}  # by run: what was judged, and with what mean
    seen: set[tuple[Path | None, str]] = set()
    checked = []
    for order in orders:
        directory = order.target.directory
        place = None if directory is None else directory.path
        if directory is not None and directory.path not in known:
            known[directory.path] = {} if again else _judged_keys(directory)
        mean = None if place is None else known[place].get(order.key)
        if (place, order.key) in seen:
            order = replace(order, status=Status.TWICE)
        elif mean is not None:
            order = replace(order, status=Status.KNOWN, mean=mean)
        seen.add((place, order.key))
        checked.append(order)
    return checked


def _judged_keys(directory: RunDirectory) -> dict[str, float]:
    """Read once for all orders of a run: its summary may be long."""
    batches: list[dict[str, Any]] = read_batches(directory)
    return {str(batch["key"]): float(batch["mean"]) for batch in batches if batch.get("key")}
