"""Workers of Ray as those who play a plan for an evaluation here: `palaestra eval RUN remote=true`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from palaestra.evaluation.plans import make_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from palaestra.cluster.evaluation.client import Answer, RayClient
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.targets import EvaluationTarget

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1  # how soon a stop is noticed while nothing comes


class RayEvaluator:
    """`Players` of an `Evaluation`; several may share one evaluator, one after another."""

    def __init__(self, evaluator: RayClient, target: EvaluationTarget) -> None:
        self._evaluator = evaluator
        self._subject = target
        self._code_differences: dict[str, tuple[str, ...]] = {}

    @property
    def code_differences(self) -> Mapping[str, tuple[str, ...]]:
        return self._code_differences

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ray belongs to who opened it."""

    def evaluate(self, plan: EvaluationPlan, is_stopped: Callable[[], bool]) -> Iterator[EpisodeResult]:
        """As shares come back; some only, and a warning, when the others were lost too often."""
        checkpoint = self._subject.checkpoint
        arrived: list[EpisodeResult] = []
        assert checkpoint.path is not None, "it was found on disk"
        number = self._evaluator.send(
            make_request(checkpoint, [plan]),
            checkpoint.path,
            trust_module=self._subject.is_own,
            on_episodes=arrived.extend,
        )
        try:
            answer = None
            while answer is None and not is_stopped():
                self._evaluator.wait(POLL_SECONDS)
                answer = next((one for one in self._evaluator.answers() if one.number == number), None)
                yield from arrived
                arrived.clear()
        finally:
            self._evaluator.drop(number)  # when it got late; else it is answered and gone
        if answer is not None:
            if answer.report is not None:
                self._code_differences.update(answer.report.code_differences)
            _report(answer)


def _report(answer: Answer) -> None:
    if answer.error is None:
        return
    if answer.report is None:
        raise answer.error
    logger.warning("%s was evaluated in part: %s", answer.report.checkpoint, answer.error)
