"""A checkpoint is judged on this machine, batch after batch, and what came of it is written down beside it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from palaestra.core.clock import SystemClock
from palaestra.core.errors import PalaestraError, RunFailed, UsageError
from palaestra.core.evaluation import EvaluationReport, Stopped, SuiteReport
from palaestra.evaluation.crowd import Crowd
from palaestra.evaluation.judged import Visiting, invite
from palaestra.evaluation.live import watchable
from palaestra.evaluation.overrides import apply_overrides
from palaestra.evaluation.plan import make_plans
from palaestra.evaluation.player import Player, one_thread
from palaestra.evaluation.records import Manner, Records, find_judgement
from palaestra.evaluation.shares import put_together
from palaestra.evaluation.suites import find_suite, suite_of
from palaestra.runs.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.judged import Judged, Subject
    from palaestra.evaluation.suites import Suite

CHANGED = "changed"  # the suite of an environment that was changed for one evaluation


@dataclass(frozen=True)
class Asked:
    """What is wanted otherwise than the checkpoint and its run say; None and empty mean: as they say."""

    suite: str = ""
    episodes: int | None = None
    seed: int | None = None
    deterministic: bool | None = None
    max_steps: int | None = None  # of one episode
    overrides: Mapping[str, Any] = field(default_factory=dict)  # of the environment
    video: bool = False
    replays: bool = False
    workers: int = 1  # processes that play
    time_limit: float | None = None  # seconds for one batch
    asked_by: str = "eval"
    evaluation: str = ""  # id of the evaluation run that asks; empty: it has no run of its own
    is_alone: bool = True  # False: a training listens; it keeps the metrics and says what failed


def _nothing(_episode: EpisodeResult) -> None:
    """Of an episode at which nobody looks."""


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Watcher:
    """Who looks on while a batch is played."""

    on_episode: Callable[[EpisodeResult], None] = _nothing
    is_stopped: Callable[[], bool] = _never


class Players(Protocol):
    """Those who play a plan instead of this process: several of this machine, or of others."""

    @property
    def code_differences(self) -> Mapping[str, tuple[str, ...]]:
        """What differs, by host that played with other code than ours; accepted by who asked."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def episodes(self, plan: EvaluationPlan, is_late: Callable[[], bool]) -> Iterator[EpisodeResult]:
        """As they come, in no order; fewer when it gets late."""
        ...


class Evaluation:
    """Opened, refused or played; the checkpoint is held until it is closed."""

    def __init__(self, judged: Judged | Visiting, asked: Asked, players: Players | None = None) -> None:
        self.judged = judged
        self._asked = asked
        self._suite, counts = choose_suite(judged, asked)
        self._manner = Manner(dict(asked.overrides), counts, asked.asked_by, asked.is_alone, asked.evaluation)
        self._clock = SystemClock()
        self._standing: SuiteReport | None = None  # all batches so far
        directory = judged.directory
        self._videos = (Path("videos") if directory is None else directory.videos) if asked.video else None
        self._replays = (Path("replays") if directory is None else directory.replays) if asked.replays else None
        self._player, self._players = self._cast(judged, players)
        self._stack = ExitStack()

    def _cast(self, judged: Judged | Visiting, players: Players | None) -> tuple[Player | None, Players | None]:
        """Who plays: this process, or others. What they cannot play is refused here."""
        workers = self._asked.workers
        if isinstance(judged, Visiting):
            if players is not None or self._replays is not None:
                raise UsageError(
                    f"{judged.name} is played by processes of this machine, and leaves no replays.",
                    "Leave out remote=true and --replays.",
                )
            for plan in self.plans():
                judged.guest.prepare(plan)
            return None, judged.guest.troupe(workers, self._videos)
        player = Player(judged.loaded, self._videos, self._replays)
        for plan in self.plans():
            player.prepare(plan)
        if players is None and workers > 1:
            players = Crowd(judged, workers, self._videos, self._replays)
        return player, players

    def __enter__(self) -> Evaluation:
        self._stack.enter_context(self.judged.held())
        self._stack.enter_context(watchable(self.judged.directory, self._player, self._players))
        if self._players is not None:
            self._stack.enter_context(self._players)
        self._records: Records | None = None
        if self.judged.directory is not None:
            self._records = self._stack.enter_context(
                Records(self.judged.directory, self.judged.checkpoint, self._manner)
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def plans(self, batch: int = 0) -> tuple[EvaluationPlan, ...]:
        asked = self._asked
        return make_plans(
            self.judged.name,
            self._suite,
            batch=batch,
            episodes=asked.episodes,
            seed=asked.seed,
            deterministic=asked.deterministic,
            max_steps=asked.max_steps,
        )

    def judge(self, batch: int = 0, watcher: Watcher | None = None) -> SuiteReport:
        """Play a batch and write it down. `Stopped` when the watcher wants it; then nothing is left of the batch."""
        plans = self.plans(batch)
        with self._told(plans, batch):
            report = self._play(plans, watcher or Watcher())
            self._standing = report if self._standing is None else _joined(self._standing, report)
            if self._records is not None:
                self._records.add(report, self._standing)
                self._tell_of_films(report)
        return report

    def recall(self) -> SuiteReport | None:
        """What came of the first batch when it was played before; its score is seen to again."""
        if self._records is None or self.judged.directory is None:
            return None
        found = find_judgement(self.judged.directory, self.judged.checkpoint, self.plans())
        if found is not None:
            self._records.settle(found)
        return found

    def _play(self, plans: tuple[EvaluationPlan, ...], watcher: Watcher) -> SuiteReport:
        limit, began = self._asked.time_limit, self._clock.monotonic()

        def is_late() -> bool:
            return watcher.is_stopped() or (limit is not None and self._clock.monotonic() - began > limit)

        reports: list[EvaluationReport] = []
        with one_thread():
            for plan in plans:
                started = self._clock.monotonic()
                episodes = list(self._episodes(plan, is_late, watcher))
                if watcher.is_stopped() and len(episodes) < len(plan.seeds):
                    raise Stopped
                if episodes:
                    reports.append(put_together(plan, episodes, self._clock.monotonic() - started))
        if not reports:
            raise RunFailed(
                f"No episode of '{plans[0].env_id}' ended within {limit:g} s.",
                "Allow more time, or give the environment a time limit: env.max_episode_steps=1000",
            )
        played = {report.plan.simulation for report in reports}
        missing = tuple(plan.simulation for plan in plans if plan.simulation not in played)
        code = {} if self._players is None else self._players.code_differences
        return SuiteReport(tuple(reports), self._clock.monotonic() - began, missing, code)

    def _episodes(self, plan: EvaluationPlan, is_late: Callable[[], bool], watcher: Watcher) -> Iterator[EpisodeResult]:
        player = self._player if self._players is None else self._players
        assert player is not None, "somebody was cast"
        for episode in player.episodes(plan, is_late):
            watcher.on_episode(episode)
            yield episode

    def _tell_of_films(self, report: SuiteReport) -> None:
        assert self.judged.directory is not None
        traced: dict[str, Any] = {"checkpoint": self.judged.name, "epoch": self.judged.checkpoint.epoch}
        for event, place in {"video.saved": self._videos, "replay.saved": self._replays}.items():
            if place is not None:
                Journal(self.judged.directory).record(event, **traced, file=place.name, episodes=len(report.episodes))

    @contextmanager
    def _told(self, plans: tuple[EvaluationPlan, ...], batch: int) -> Iterator[None]:
        """The journal says when an evaluation began, and why when it did not end."""
        if self.judged.directory is None:
            yield
            return
        journal = Journal(self.judged.directory)
        traced: dict[str, Any] = {"checkpoint": self.judged.name, "epoch": self.judged.checkpoint.epoch}
        if batch == 0:
            episodes = sum(len(plan.seeds) for plan in plans)
            journal.record("eval.started", **traced, episodes=episodes, seed=plans[0].seeds[0], suite=plans[0].suite)
        try:
            yield
        except PalaestraError as error:
            if self._asked.is_alone:
                journal.record("eval.failed", **traced, error=str(error))
            raise


def choose_suite(judged: Subject, asked: Asked) -> tuple[Suite, bool]:
    """The simulations that are asked for, and whether they are those by which the run judges its checkpoints."""
    if asked.overrides:
        env = apply_overrides(judged.checkpoint.env, asked.overrides).model_dump(mode="json")
        if asked.suite:
            return find_suite(asked.suite, env), False
        return suite_of(CHANGED, judged.settings.model_copy(update={"simulations": {}}), env), False
    own = judged.own_suite()
    if not asked.suite:
        return own, True
    suite = find_suite(asked.suite, judged.checkpoint.env)
    return suite, suite.judges_like(own)


def evaluate_target(target: str, runs_root: Path, **asked: Any) -> SuiteReport:
    """Judge `RUN[:best|:latest|:EPOCH]` or a path, once; see `Asked` for what can be asked.

    The score reaches the sidecar only when it is of the simulations that the run is judged by, and complete.
    """
    with Evaluation(invite(target, runs_root), Asked(**asked)) as evaluation:
        return evaluation.judge()


def _joined(before: SuiteReport, after: SuiteReport) -> SuiteReport:
    """Two batches of one suite as if they were one."""
    later = {one.plan.simulation: one for one in after.reports}
    reports = tuple(_appended(one, later.get(one.plan.simulation)) for one in before.reports)
    code = {**before.code_differences, **after.code_differences}
    return SuiteReport(reports, before.seconds + after.seconds, before.missing + after.missing, code)


def _appended(one: EvaluationReport, other: EvaluationReport | None) -> EvaluationReport:
    if other is None:
        return one
    plan = replace(one.plan, seeds=one.plan.seeds + other.plan.seeds)
    return EvaluationReport(
        plan, one.episodes + other.episodes, one.seconds + other.seconds, one.complete and other.complete
    )
