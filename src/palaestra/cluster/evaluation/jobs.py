"""Targets times suites as requests to judge, without those that are known: what `palaestra request-eval` sends."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import common_cluster
from palaestra.cluster.evaluation.client import RayClient
from palaestra.core.errors import PalaestraError, RunFailed
from palaestra.core.evaluation import Stopped
from palaestra.evaluation.plans import key_of, make_plans, make_request
from palaestra.evaluation.records import EvaluationEvents, EvaluationRecorder, RecordOptions
from palaestra.evaluation.session import EvaluationOptions, choose_suite
from palaestra.evaluation.summary import read_batches
from palaestra.evaluation.targets import find_targets
from palaestra.runs.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from palaestra.cluster.evaluation.client import Answer
    from palaestra.core.episodes import EpisodeResult
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
class EvaluationJob:
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


def make_jobs(
    targets: Iterable[str], runs_root: Path, asked: Iterable[EvaluationOptions], *, again: bool = False
) -> list[EvaluationJob]:
    """All targets in all suites that are asked for; nothing is loaded, played or sent."""
    wanted = list(asked)
    orders: list[EvaluationJob] = []
    for target in targets:
        for found in find_targets(target, runs_root):
            orders.extend(_order(number, found, one) for number, one in enumerate(wanted, len(orders)))
    return _without_doubles(orders, again=again)


def _order(number: int, target: EvaluationTarget, asked: EvaluationOptions) -> EvaluationJob:
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
    return EvaluationJob(number, target, request, options, key_of(request.weights, plans))


def _without_doubles(orders: list[EvaluationJob], *, again: bool) -> list[EvaluationJob]:
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


AT_ONCE = 256  # requests that are sent and not answered; their checkpoints are held
POLL_SECONDS = 0.1


class JobRunner:
    """One go: every order is sent and, in whatever order they are answered, given back with what became of it."""

    def __init__(
        self,
        evaluator: RayClient,
        on_episodes: Callable[[list[EpisodeResult]], None] = lambda _episodes: None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._evaluator = evaluator
        self._on_episodes = on_episodes
        self._is_stopped = is_stopped
        self._sent: dict[int, tuple[EvaluationJob, ExitStack]] = {}
        self._curves: dict[Path, EvaluationEvents] = {}  # one file of events for each run

    def run(self, orders: Sequence[EvaluationJob]) -> Iterator[EvaluationJob]:
        """`Stopped` when somebody wants it; what was answered by then is written down."""
        waiting = deque(orders)
        with ExitStack() as stack:
            stack.callback(self._let_go)
            while waiting or self._sent:
                while waiting and len(self._sent) < AT_ONCE:
                    refused = self._send(waiting.popleft())
                    if refused is not None:
                        yield refused
                self._evaluator.wait(POLL_SECONDS)
                if self._is_stopped():
                    raise Stopped
                for answer in self._evaluator.answers():
                    yield self._take(answer)
                    if answer.is_ray_lost and answer.error is not None:
                        yield from (_failed(order, answer.error) for order in waiting)
                        waiting.clear()

    def _send(self, order: EvaluationJob) -> EvaluationJob | None:
        path, stack = order.target.checkpoint.path, ExitStack()
        assert path is not None, "it was found on disk"
        try:
            stack.enter_context(order.target.in_use())
            self._tell(order, "eval.started", episodes=order.episodes, suite=order.suite, seed=_first_seed(order))
            trusted = order.target.is_own
            number = self._evaluator.send(order.request, path, trust_module=trusted, on_episodes=self._on_episodes)
        except PalaestraError as error:
            stack.close()
            return self._told(order, error)
        self._sent[number] = (order, stack)
        return None

    def _take(self, answer: Answer) -> EvaluationJob:
        order, stack = self._sent.pop(answer.number)
        with stack:
            if answer.report is None:
                return self._told(order, answer.error or RunFailed("Nothing was played."))
            try:
                self._write(order, answer)
            except PalaestraError as error:
                return self._told(order, error)
        status = Status.DONE if answer.report.complete else Status.PARTIAL
        order = order if answer.error is None else _failed(order, answer.error)
        return replace(order, status=status, mean=answer.report.mean, report=answer.report, retries=answer.retries)

    def _write(self, order: EvaluationJob, answer: Answer) -> None:
        directory = order.target.directory
        if directory is None or answer.report is None:
            return
        curves = self._curves.setdefault(directory.path, EvaluationEvents(directory))
        with EvaluationRecorder(directory, order.target.checkpoint, order.options, curves) as records:
            records.add(answer.report)

    def _told(self, order: EvaluationJob, error: PalaestraError) -> EvaluationJob:
        self._tell(order, "eval.failed", error=str(error))
        return _failed(order, error)

    def _tell(self, order: EvaluationJob, event: str, **data: Any) -> None:
        if order.target.directory is not None:
            traced: dict[str, Any] = {"checkpoint": order.target.name, "epoch": order.target.checkpoint.epoch}
            Journal(order.target.directory).record(event, **traced, **data)

    def _let_go(self) -> None:
        for number, (_, stack) in self._sent.items():
            self._evaluator.drop(number)
            stack.close()
        self._sent.clear()
        for curves in self._curves.values():
            curves.close()


def request_evaluations(
    orders: Sequence[EvaluationJob],
    cluster: Mapping[str, Any] | None = None,
    on_episodes: Callable[[list[EpisodeResult]], None] = lambda _episodes: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Iterator[EvaluationJob]:
    """Every new order with what became of it, as they are answered; Ray is opened only when there is one.

    `cluster` are settings of `ClusterConfig` that go before what the runs say.
    """
    new = [order for order in orders if order.status is Status.NEW]
    if not new:
        return
    chosen = common_cluster((order.target.directory for order in _one_of_each_run(new)), cluster)
    with RayClient(chosen) as evaluator:
        yield from JobRunner(evaluator, on_episodes, is_stopped).run(new)


def _one_of_each_run(orders: Sequence[EvaluationJob]) -> Iterable[EvaluationJob]:
    return {order.target.checkpoint.run: order for order in orders}.values()


def _failed(order: EvaluationJob, error: PalaestraError) -> EvaluationJob:
    return replace(order, status=Status.FAILED, error=str(error), exit_code=error.exit_code)


def _first_seed(order: EvaluationJob) -> int:
    return order.request.plans[0].seeds[0]
