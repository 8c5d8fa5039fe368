"""Evaluates requests on Ray: sends them to the driver process and makes reports of the episodes that come back.

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
class EvaluationResult:
    """The report of a request, perhaps incomplete, and the error if there was one."""

    number: int
    request: EvaluationRequest
    report: SuiteReport | None
    retries: int = 0  # of lost shares
    error: PalaestraError | None = None
    is_ray_lost: bool = False  # then every other request fails as well


@dataclass
class _Pending:
    request: EvaluationRequest
    on_episodes: Callable[[list[EpisodeResult]], None]
    episodes: dict[str, list[EpisodeResult]] = field(default_factory=dict)  # by simulation
    seconds: dict[str, float] = field(default_factory=dict)  # of play, by simulation


def _ignore(_episodes: list[EpisodeResult]) -> None:
    pass


class RayClient:
    """A `RemoteEvaluator` that the command line uses as well. The first request opens Ray."""

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
        self.send(request, sidecar, trust_module=True)  # a training has loaded the modules that its checkpoints name

    def send(
        self,
        request: EvaluationRequest,
        sidecar: Path,
        *,
        trust_module: bool,
        on_episodes: Callable[[list[EpisodeResult]], None] = _ignore,
    ) -> int:
        """Returns the number of the request; `on_episodes` is called with episodes as they arrive."""
        if self._link is None:
            self._link = self._opened()
        number = next(self._numbers)
        self._pending[number] = _Pending(request, on_episodes)
        text = request_to_json(request)
        self._link.send(
            {"id": number, "request": text, "sidecar": str(sidecar.resolve()), "trust_module": trust_module}
        )
        return number

    def collect(self) -> list[tuple[EvaluationRequest, SuiteReport | str]]:
        received: list[tuple[EvaluationRequest, SuiteReport | str]] = []
        for result in self.responses():
            if result.report is not None and result.error is not None:
                logger.warning("%s was evaluated in part: %s", result.report.checkpoint, result.error)
            received.append((result.request, str(result.error) if result.report is None else result.report))
        return received

    def responses(self) -> list[EvaluationResult]:
        """The results that have arrived since the last call; an error for every request when Ray is lost."""
        if self._link is None:
            return []
        try:
            messages = self._link.receive()
        except RunFailed as error:
            self._link = None
            lost = [self._make_result(number, 0.0, 0, error) for number in list(self._pending)]
            return [replace(result, is_ray_lost=True) for result in lost]
        found = []
        for message in messages:
            if message["id"] not in self._pending:  # cancelled
                continue
            if message.get("done"):
                found.append(self._done(message))
            else:
                self._add_episodes(message)
        return found

    def wait(self, seconds: float) -> None:
        if self._link is not None:
            self._link.wait(seconds)

    def cancel(self, number: int) -> None:
        """Cancels a request."""
        if self._pending.pop(number, None) is not None and self._link is not None:
            self._link.send({"id": number, "drop": True})

    def close(self) -> None:
        self._pending.clear()
        if self._link is not None:
            self._link.close()
            self._link = None

    def _opened(self) -> DriverProcess:
        try:
            return DriverProcess(self._cluster, self._log)
        except OSError as error:
            raise RunFailed(f"The Ray driver process could not be started: {error.strerror}.") from error

    def _add_episodes(self, message: dict[str, Any]) -> None:
        pending, simulation = self._pending[message["id"]], message["simulation"]
        episodes = [episode_from(row) for row in message["episodes"]]
        pending.episodes.setdefault(simulation, []).extend(episodes)
        pending.seconds[simulation] = pending.seconds.get(simulation, 0.0) + message["seconds"]
        pending.on_episodes(episodes)

    def _done(self, message: dict[str, Any]) -> EvaluationResult:
        error = None
        if message["error"]:
            error = RunFailed(message["error"], message["hint"])
            error.exit_code = message["exit_code"]
        code = {host: tuple(names) for host, names in message.get("code_differences", {}).items()}
        return self._make_result(message["id"], message["seconds"], message["retries"], error, code)

    def _make_result(
        self,
        number: int,
        seconds: float,
        retries: int,
        error: RunFailed | None,
        code_differences: dict[str, tuple[str, ...]] | None = None,
    ) -> EvaluationResult:
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
        return EvaluationResult(number, pending.request, report, retries, error)


def open_evaluator(directory: RunDirectory) -> RayClient:
    """The client of a training; the output of Ray goes to the logs of the run."""
    return RayClient(cluster_of(directory), directory.logs / LOG)


OPEN_SECONDS = 120.0  # Ray starts slowly on a busy machine; a cluster that does not respond is reported much sooner
SILENT_SECONDS = 60.0  # without a heartbeat
SHUTDOWN_SECONDS = 10.0  # for Ray to shut down
DRIVER = "palaestra.cluster.evaluation"


class DriverProcess:
    """The process that talks to Ray. `receive` raises `RunFailed` when it has ended, and closes it."""

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
        self._received_at = self._clock.monotonic()
        self.send({"cluster": cluster.model_dump(), "parent": os.getpid()})

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def name(self) -> str:
        return f"Ray at {self._cluster.address}" if self._cluster.address else "Ray on this machine"

    def send(self, message: dict[str, Any]) -> None:
        """Sent at once, or with the next call if the process is busy."""
        self._child.send(message)

    def receive(self) -> list[dict[str, Any]]:
        """Messages since the last call, without heartbeats."""
        try:
            messages = self._child.receive()
        except EOFError:
            how = self._child.describe_exit(SHUTDOWN_SECONDS)
            raise self._failed(
                f"{self.name} is gone: its driver process {how}.", "Ask again when it is back."
            ) from None
        if messages:
            self._received_at = self._clock.monotonic()
        for message in messages:
            if "error" in message and "id" not in message:
                raise self._failed(message["error"], message["hint"], message["exit_code"])
            if "note" in message:
                logger.warning("%s", message["note"])
        self._is_ready = self._is_ready or any("ready" in message for message in messages)
        limit = SILENT_SECONDS if self._is_ready else OPEN_SECONDS
        if self._clock.monotonic() - self._received_at > limit:
            self._child.process.kill()
            raise self._failed(f"{self.name} has not responded for {limit:g} s.", "It may be overloaded.")
        return [message for message in messages if "id" in message]

    def wait(self, seconds: float) -> None:
        """Returns when there is a message, or after `seconds`."""
        self._child.wait(seconds)

    def close(self) -> None:
        """Cancels open requests; an embedded Ray is shut down."""
        self._child.end(SHUTDOWN_SECONDS)

    def _failed(self, message: str, hint: str, exit_code: int = 1) -> RunFailed:
        self.close()
        error = RunFailed(message, hint)
        error.exit_code = exit_code
        return error
