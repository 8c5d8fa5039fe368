"""The evaluator interfaces.

`Evaluator` plays the plans of an evaluation while the caller waits; the command line, evaluation runs, and the process
beside a training use it:

- `local.LocalEvaluator` plays in this process,
- `pool.PoolEvaluator` plays in several processes of this machine,
- `palaestra.cluster.evaluation.client.RayEvaluator` plays on a Ray cluster.

`BackgroundEvaluator` evaluates checkpoints while their training goes on: `background.ProcessEvaluator` with a
`LocalEvaluator` in a process beside the training, `background.RemoteCheckpointEvaluator` on a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan


class Evaluator(Protocol):
    """Plays plans with one checkpoint. Seeds decide the results, so every evaluator gives the same."""

    @property
    def code_differences(self) -> Mapping[str, tuple[str, ...]]:
        """By host that played with different code: what differs. Empty where the code is the same everywhere."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def evaluate(self, plan: EvaluationPlan, is_stopped: Callable[[], bool]) -> Iterator[EpisodeResult]:
        """One result per seed, in the order in which episodes end; fewer once `is_stopped` returns True."""
        ...


@dataclass(frozen=True)
class CheckpointEvaluation:
    """The result of one evaluated checkpoint: metrics at the step of its weights, or the error."""

    epoch: int
    step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    error: str = ""


class BackgroundEvaluator(Protocol):
    """Evaluates the checkpoints of a run while it trains. Only `wait` blocks."""

    @property
    def outstanding(self) -> int:
        """Submitted checkpoints whose result was not collected yet."""
        ...

    def submit(self, checkpoint: Checkpoint) -> None: ...

    def collect(self) -> list[CheckpointEvaluation]:
        """The results that have arrived since the last call."""
        ...

    def wait(self, seconds: float) -> None:
        """Blocks until there may be a result, for at most `seconds`."""
        ...

    def close(self) -> None:
        """Gives up what is still being evaluated."""
        ...
