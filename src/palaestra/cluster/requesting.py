"""Orders sent to Ray, and what comes back written down beside each run, as if it had been judged here."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import common_cluster
from palaestra.cluster.evaluator import RayClient
from palaestra.cluster.orders import Order, Status
from palaestra.core.errors import PalaestraError, RunFailed
from palaestra.core.evaluation import Stopped
from palaestra.evaluation.records import EvaluationEvents, EvaluationRecorder
from palaestra.runs.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from palaestra.cluster.evaluator import Answer
    from palaestra.core.episodes import EpisodeResult

AT_ONCE = 256  # requests that are sent and not answered; their checkpoints are held
LOOK_SECONDS = 0.1


class Requesting:
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
        self._sent: dict[int, tuple[Order, ExitStack]] = {}
        self._curves: dict[Path, EvaluationEvents] = {}  # one file of events for each run

    def run(self, orders: Sequence[Order]) -> Iterator[Order]:
        """`Stopped` when somebody wants it; what was answered by then is written down."""
        waiting = deque(orders)
        with ExitStack() as stack:
            stack.callback(self._let_go)
            while waiting or self._sent:
                while waiting and len(self._sent) < AT_ONCE:
                    refused = self._send(waiting.popleft())
                    if refused is not None:
                        yield refused
                self._evaluator.wait(LOOK_SECONDS)
                if self._is_stopped():
                    raise Stopped
                for answer in self._evaluator.answers():
                    yield self._take(answer)
                    if answer.is_ray_lost and answer.error is not None:
                        yield from (_failed(order, answer.error) for order in waiting)
                        waiting.clear()

    def _send(self, order: Order) -> Order | None:
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

    def _take(self, answer: Answer) -> Order:
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

    def _write(self, order: Order, answer: Answer) -> None:
        directory = order.target.directory
        if directory is None or answer.report is None:
            return
        curves = self._curves.setdefault(directory.path, EvaluationEvents(directory))
        with EvaluationRecorder(directory, order.target.checkpoint, order.options, curves) as records:
            records.add(answer.report)

    def _told(self, order: Order, error: PalaestraError) -> Order:
        self._tell(order, "eval.failed", error=str(error))
        return _failed(order, error)

    def _tell(self, order: Order, event: str, **data: Any) -> None:
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
    orders: Sequence[Order],
    cluster: Mapping[str, Any] | None = None,
    on_episodes: Callable[[list[EpisodeResult]], None] = lambda _episodes: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Order]:
    """Every new order with what became of it, as they are answered; Ray is opened only when there is one.

    `cluster` are settings of `ClusterConfig` that go before what the runs say.
    """
    new = [order for order in orders if order.status is Status.NEW]
    if not new:
        return
    chosen = common_cluster((order.target.directory for order in _one_of_each_run(new)), cluster)
    with RayClient(chosen) as evaluator:
        yield from Requesting(evaluator, on_episodes, is_stopped).run(new)


def _one_of_each_run(orders: Sequence[Order]) -> Iterable[Order]:
    return {order.target.checkpoint.run: order for order in orders}.values()


def _failed(order: Order, error: PalaestraError) -> Order:
    return replace(order, status=Status.FAILED, error=str(error), exit_code=error.exit_code)


def _first_seed(order: Order) -> int:
    return order.request.plans[0].seeds[0]
