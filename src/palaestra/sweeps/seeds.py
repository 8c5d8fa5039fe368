"""`--seeds 1..5`: the same training once for each seed. All state is in the runs themselves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.analysis.statistics import Estimate, estimate, mean_of_strata
from palaestra.config.resolve import resolve_training
from palaestra.core.errors import UsageError
from palaestra.core.executor import LOCAL
from palaestra.core.run import RunState
from palaestra.runs.identity import check_name
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.sweeps.order import digest, hidden_directory, is_done, make_order, prepare_run, slot_request
from palaestra.sweeps.results import RETURN, SCORE, value_of
from palaestra.sweeps.scheduler import find_slots, run_trials

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from palaestra.config.train import TrainConfig
    from palaestra.core.run import RunRequest
    from palaestra.core.trials import TrialRequest, TrialResult

NOT_BEGUN = "not begun"


@dataclass(frozen=True)
class SeedResult:
    seed: int
    name: str
    run: str  # id; empty: there is none
    state: str
    agent_step: int
    last_return: float | None  # mean over the last episodes of training
    score: float | None  # of the last evaluation
    failure: str = ""


@dataclass(frozen=True)
class SeedsReport:
    name: str
    results: tuple[SeedResult, ...]
    exit_code: int

    def mean(self, figure: str) -> Estimate | None:
        """Of `last_return` or `score` over the finished seeds, with a 95 % interval where there are several."""
        values = [getattr(one, figure) for one in self.results if one.state == RunState.FINISHED]
        known = np.array([value for value in values if value is not None], dtype=np.float64)
        return estimate([known], mean_of_strata) if len(known) else None


class SeedRuns:
    """The work of `fan_out`: those seeds whose run does not have all its steps yet."""

    def __init__(
        self, requested: Sequence[tuple[RunRequest, TrainConfig]], runs_root: Path, say: Callable[[str], None]
    ) -> None:
        self._say = say
        self._store = RunStore(runs_root)
        self._logs = hidden_directory(runs_root) / ".seeds"  # no sweep may have this name
        self._waiting = deque(pair for pair in requested if not is_done(self._store, *pair))
        self.failures: dict[str, str] = {}  # name -> why
        self._left = len(self._waiting)

    @property
    def left(self) -> int:
        return self._left

    def next_order(self) -> TrialRequest | None:
        if not self._waiting:
            return None
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        request, config = self._waiting.popleft()
        return make_order(request, config, self._store.root, self._logs)

    def on_result(self, order: TrialRequest, end: TrialResult, *, was_stopped: bool) -> None:
        self._left -= 1
        directory = self._store.named(order.name)
        record = read_record(directory) if directory is not None else None
        if end.exit_code and not was_stopped:
            self.failures[order.name] = (record.failure if record else "") or end.error or f"exit code {end.exit_code}"
        state = record.state if record else NOT_BEGUN
        why = f": {self.failures[order.name]}" if order.name in self.failures else ""
        self._say(f"{order.name} is {state} at step {record.agent_step if record else 0:,}{why}; {self._left} to go")

    def on_restart(self, order: TrialRequest, end: TrialResult) -> None:
        self._say(f"{order.name} starts again from its last checkpoint: {end.error}")

    def names_to_stop(self) -> list[str]:
        return []


def train_seeds(
    recipe: str,
    overrides: Mapping[str, Any],
    seeds: Sequence[int],
    runs_root: Path,
    *,
    name: str = "",
    slots: int | None = None,
    executor: str = LOCAL,
    submitted_by: str = "",
    say: Callable[[str], None] = lambda _line: None,
) -> SeedsReport:
    """One run per seed, named NAME-s1 and so on; finished runs are not trained again."""
    if "seed" in overrides:
        raise UsageError(f"--seeds and seed={overrides['seed']} exclude each other.", "Remove one of them.")
    config = resolve_training(recipe, overrides)
    open_slots = find_slots(executor)
    base = name or default_name(recipe, config)
    requested = [
        prepare_run(recipe, {**overrides, "seed": seed}, seed_name(base, seed), submitted_by) for seed in seeds
    ]
    work = SeedRuns(requested, runs_root, say)
    interrupted = 0
    if work.left:
        interrupted = run_trials(open_slots(slot_request(config, slots)), work)
    results = tuple(_result(work, RunStore(runs_root), seed, seed_name(base, seed)) for seed in seeds)
    is_failed = any(one.state in {RunState.FAILED, RunState.LOST} or one.failure for one in results)
    return SeedsReport(base, results, interrupted or int(is_failed))


def seed_name(base: str, seed: int) -> str:
    return check_name(f"{base}-s{seed}")


def default_name(recipe: str, config: TrainConfig) -> str:
    """Equal for equal settings, so that the same command resumes the same runs."""
    return (
        f"{recipe or config.env.id.replace('/', '-').replace(':', '-')}-{digest(config.model_dump(exclude={'seed'}))}"
    )


def _result(work: SeedRuns, store: RunStore, seed: int, name: str) -> SeedResult:
    directory = store.named(name)
    failure = work.failures.get(name, "")
    if directory is None:
        return SeedResult(seed, name, "", RunState.FAILED if failure else NOT_BEGUN, 0, None, None, failure)
    record = read_record(directory)
    figures = value_of(directory, RETURN), value_of(directory, SCORE)
    return SeedResult(seed, name, record.id, record.state, record.agent_step, *figures, failure or record.failure)
