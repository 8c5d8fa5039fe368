"""The `Evaluator` of `palaestra eval RUN remote=true`: Ray's workers play, this process records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from palaestra.evaluation.plans import make_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from palaestra.cluster.evaluation.client import EvaluationResult, RayClient
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.targets import EvaluationTarget

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1  # how soon a stop is noticed while no episode arrives


class RayEvaluator:
    """An `Evaluator` that plays on Ray; several may share one client, one after another."""

    def __init__(self, client: RayClient, target: EvaluationTarget) -> None:
        self._client = client
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
        """The caller closes the client."""

    def evaluate(self, plan: EvaluationPlan, is_stopped: Callable[[], bool]) -> Iterator[EpisodeResult]:
        """Episodes arrive by shares; a warning when some were lost too often."""
        checkpoint = self._subject.checkpoint
        arrived: list[EpisodeResult] = []
        assert checkpoint.path is not None, "it was found on disk"
        number = self._client.send(
            make_request(checkpoint, [plan]),
            checkpoint.path,
            trust_module=self._subject.is_own,
            on_episodes=arrived.extend,
        )
        try:
            result = None
            while result is None and not is_stopped():
                self._client.wait(POLL_SECONDS)
                result = next((one for one in self._client.responses() if one.number == number), None)
                yield from arrived
                arrived.clear()
        finally:
            self._client.cancel(number)  # no effect after the result has arrived
        if result is not None:
            if result.report is not None:
                self._code_differences.update(result.report.code_differences)
            _report(result)


def _report(result: EvaluationResult) -> None:
    if result.error is None:
        return
    if result.report is None:
        raise result.error
    logger.warning("%s was evaluated in part: %s", result.report.checkpoint, result.error)
