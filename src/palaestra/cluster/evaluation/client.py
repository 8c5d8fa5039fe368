"""Judges checkpoints on Ray: requests go out, episodes come back, reports are put together here.

The `remote_evaluator` of the executor `ray`; nothing of Ray is loaded into this process.
"""

from __future__ import annotations

import logging
import os
import tempfile
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import cluster_of
from palaestra.cluster.ray_runtime import require_ray
from palaestra.config.distributed import ClusterConfig
from palaestra.core.child_process import LineChild, import_path, module_command
from palaestra.core.clock import Clock, SystemClock
from palaestra.core.errors import PalaestraError, RunFailed
from palaestra.core.evaluation import SuiteReport
from palaestra.evaluation.plans import episode_from, merge_episodes, request_to_json
from palaestra.runs.environment import RANK_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationRequest
    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

LOG = "ray.log"


@dataclass(frozen=True)
class Answer:
    """What became of a request: a report, perhaps of a part only, and why there is no more."""

    number: int
    request: EvaluationRequest
    report: SuiteReport | None
    retries: int = 0  # of shares that were lost on the way
    error: PalaestraError | None = None
    is_ray_lost: bool = False  # then no other request will fare better


@dataclass
class _Pending:
    request: EvaluationRequest
    on_episodes: Callable[[list[EpisodeResult]], None]
    episodes: dict[str, list[EpisodeResult]] = field(default_factory=dict)  # by simulation
    seconds: dict[str, float] = field(default_factory=dict)  # that workers played


def _nothing(_episodes: list[EpisodeResult]) -> None:
    """Of episodes at which nobody looks."""


class RayClient:
    """A `RemoteEvaluator`, and what the command line needs beyond that. Ray is opened by the first request."""

    def __init__(self, cluster: ClusterConfig | None = None, log: Path | None = None) -> None:
        require_ray()
        self._cluster = cluster or ClusterConfig()
        self._log = log
        self._link: DriverProcess | None = None
        self._pending: dict[int, _Pending] = {}
        self._numbers = count(1)

    def __enter__(self) -> RayClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def outstanding(self) -> int:
        return len(self._pending)

    def submit(self, request: EvaluationRequest, sidecar: Path) -> None:
        self.send(request, sidecar, trust_module=True)  # a training's own checkpoint names modules that it has loaded

    def send(
        self,
        request: EvaluationRequest,
        sidecar: Path,
        *,
        trust_module: bool,
        on_episodes: Callable[[list[EpisodeResult]], None] = _nothing,
    ) -> int:
        """The number under which the answer will come; `on_episodes` gets them before, as they come."""
        if self._link is None:
            self._link = self._opened()
        number = next(self._numbers)
        self._pending[number] = _Pending(request, on_episodes)
        text = request_to_json(request)
        self._link.say({"id": number, "request": text, "sidecar": str(sidecar.resolve()), "trust_module": trust_module})
        return number

    def collect(self) -> list[tuple[EvaluationRequest, SuiteReport | str]]:
        heard: list[tuple[EvaluationRequest, SuiteReport | str]] = []
        for answer in self.answers():
            if answer.report is not None and answer.error is not None:
                logger.warning("%s was evaluated in part: %s", answer.report.checkpoint, answer.error)
            heard.append((answer.request, str(answer.error) if answer.report is None else answer.report))
        return heard

    def answers(self) -> list[Answer]:
        """Of the requests that were answered since the last call; when Ray is lost, all are."""
        if self._link is None:
            return []
        try:
            messages = self._link.hear()
        except RunFailed as error:
            self._link = None
            lost = [self._settled(number, 0.0, 0, error) for number in list(self._pending)]
            return [replace(answer, is_ray_lost=True) for answer in lost]
        found = []
        for message in messages:
            if message["id"] not in self._pending:  # dropped meanwhile
                continue
            if message.get("done"):
                found.append(self._done(message))
            else:
                self._keep(message)
        return found

    def wait(self, seconds: float) -> None:
        if self._link is not None:
            self._link.wait(seconds)

    def drop(self, number: int) -> None:
        """Nobody wants the answer any more."""
        if self._pending.pop(number, None) is not None and self._link is not None:
            self._link.say({"id": number, "drop": True})

    def close(self) -> None:
        self._pending.clear()
        if self._link is not None:
            self._link.close()
            self._link = None

    def _opened(self) -> DriverProcess:
        try:
            return DriverProcess(self._cluster, self._log)
        except OSError as error:
            raise RunFailed(f"No process to speak with Ray could be started: {error.strerror}.") from error

    def _keep(self, message: dict[str, Any]) -> None:
        pending, simulation = self._pending[message["id"]], message["simulation"]
        episodes = [episode_from(row) for row in message["episodes"]]
        pending.episodes.setdefault(simulation, []).extend(episodes)
        pending.seconds[simulation] = pending.seconds.get(simulation, 0.0) + message["seconds"]
        pending.on_episodes(episodes)

    def _done(self, message: dict[str, Any]) -> Answer:
        error = None
        if message["error"]:
            error = RunFailed(message["error"], message["hint"])
            error.exit_code = message["exit_code"]
        code = {host: tuple(names) for host, names in message.get("code_differences", {}).items()}
        return self._settled(message["id"], message["seconds"], message["retries"], error, code)

    def _settled(
        self,
        number: int,
        seconds: float,
        retries: int,
        error: RunFailed | None,
        code_differences: dict[str, tuple[str, ...]] | None = None,
    ) -> Answer:
        pending = self._pending.pop(number)
        plans = pending.request.plans
        reports = tuple(
            merge_episodes(plan, pending.episodes[plan.simulation], pending.seconds[plan.simulation])
            for plan in plans
            if plan.simulation in pending.episodes
        )
        missing = tuple(plan.simulation for plan in plans if plan.simulation not in pending.episodes)
        report = None
        if reports:
            total = seconds or sum(pending.seconds.values())
            report = SuiteReport(reports, total, missing, code_differences or {})
        return Answer(number, pending.request, report, retries, error)


def open_evaluator(directory: RunDirectory) -> RayClient:
    """For a training: what Ray has to say is in the run's logs."""
    return RayClient(cluster_of(directory), directory.logs / LOG)


OPEN_SECONDS = 120.0  # a busy machine takes its time to start Ray; a cluster that does not answer is known much sooner
SILENT_SECONDS = 60.0  # without a sign of life
SETTLE_SECONDS = 10.0  # for Ray to be put away
DRIVER = "palaestra.cluster.evaluation"


class DriverProcess:
    """The process that speaks with Ray. `hear` raises `RunFailed` when it is gone; it is closed then."""

    def __init__(self, cluster: ClusterConfig, log: Path | None = None, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._is_ready = False
        variables = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
        with tempfile.TemporaryFile() if log is None else log.open("ab") as output:
            self._child = LineChild(
                module_command(DRIVER),
                variables={**variables, "PYTHONPATH": import_path()},
                output=output,
                errors=output,
                own_session=True,  # Ctrl-C must reach only the starting process
                can_wait=False,
            )
        self._heard_at = self._clock.monotonic()
        self.say({"cluster": cluster.model_dump(), "parent": os.getpid()})

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def name(self) -> str:
        return f"Ray at {self._cluster.address}" if self._cluster.address else "Ray on this machine"

    def say(self, message: dict[str, Any]) -> None:
        """Sent at once, or with the next call if the process is busy."""
        self._child.send(message)

    def hear(self) -> list[dict[str, Any]]:
        """The messages that have come since the last call, except signs of life."""
        try:
            messages = self._child.receive()
        except EOFError:
            how = self._child.describe_exit(SETTLE_SECONDS)
            raise self._failed(
                f"{self.name} is gone: its driver process {how}.", "Ask again when it is back."
            ) from None
        if messages:
            self._heard_at = self._clock.monotonic()
        for message in messages:
            if "error" in message and "id" not in message:
                raise self._failed(message["error"], message["hint"], message["exit_code"])
            if "note" in message:
                logger.warning("%s", message["note"])
        self._is_ready = self._is_ready or any("ready" in message for message in messages)
        limit = SILENT_SECONDS if self._is_ready else OPEN_SECONDS
        if self._clock.monotonic() - self._heard_at > limit:
            self._child.process.kill()
            raise self._failed(f"{self.name} has not answered for {limit:g} s.", "Is it overloaded?")
        return [message for message in messages if "id" in message]

    def wait(self, seconds: float) -> None:
        """Returns when there is something to hear, or after `seconds`."""
        self._child.wait(seconds)

    def close(self) -> None:
        """Requests under way are given up; a Ray of our own is shut down."""
        self._child.end(SETTLE_SECONDS)

    def _failed(self, message: str, hint: str, exit_code: int = 1) -> RunFailed:
        self.close()
        error = RunFailed(message, hint)
        error.exit_code = exit_code
        return error
