"""Slots for parallel runs on Ray: each trial is an actor on a machine with room, and a child process.

The slots follow the cluster: a machine that joins is used, one that leaves is not waited for, and one whose code
differs is named and left out.
"""

from __future__ import annotations

import logging
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import configured_address
from palaestra.cluster.connection import open_ray
from palaestra.cluster.nodes import alive_nodes
from palaestra.cluster.training.rank_actor import RankActor
from palaestra.cluster.training.rank_setup import (
    different_code,
    forwarded_variables,
    marker_file,
    modules_of,
    upload_for,
)
from palaestra.cluster.training.remote_rank import LOST, RemoteRank, end_actors, first_line
from palaestra.cluster.training.run_mirror import RunMirror
from palaestra.core.errors import PalaestraError, UsageError
from palaestra.core.trials import TrialResult
from palaestra.runner.job import TrainingJob
from palaestra.runner.launch import IN_ORDER
from palaestra.runner.logs import warnings_on_stderr

if TYPE_CHECKING:
    from palaestra.cluster.nodes import Node
    from palaestra.cluster.training.rank_actor import ActorSite
    from palaestra.core.trials import SlotRequest, TrialRequest

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1
NODES_SECONDS = 1.0  # between two questions which nodes there are
AVOID_SECONDS = 5.0
MAX_FAILURES = 3  # to start a trial on a node, before it is left out for good


class RaySlots:
    """A `TrialRunner` for a cluster or an embedded Ray; see core/trials.py."""

    def __init__(self, wanted: SlotRequest) -> None:
        self._wanted = wanted
        self._stack = ExitStack()
        self._trials: dict[str, RemoteTrial] = {}
        self._waiting: dict[str, TrialRequest] = {}  # their machine was unfit, or left before they began
        self._stopped: list[TrialResult] = []  # of those that never began
        self._refused: dict[str, str] = {}  # node -> what differs there
        self._failures: Counter[str] = Counter()  # node -> trials that could not start there
        self._avoided: dict[str, float] = {}  # node -> until when, after something was lost there
        self._markers: dict[Path, str] = {}
        self._nodes: list[Node] = []
        self._nodes_at = float("-inf")
        opened = open_ray(
            configured_address(wanted.address), cpus=_own_cpus(wanted), is_checked=False
        )  # trials check it
        session = self._stack.enter_context(opened)
        self._ray = session.ray
        self._is_embedded = session.is_embedded
        if self.slots < 1:
            self._stack.close()
            raise UsageError(
                f"A trial needs {wanted.cpus_each} CPUs and {wanted.gpus_each:g} GPUs on one machine; the cluster has "
                f"{session.cpus:g} and {session.gpus:g}.",
                "Give it more machines with 'palaestra worker'.",
            )

    @property
    def slots(self) -> int:
        """The number of trials that fit on the current machines; 0 if all have left."""
        room = sum(map(self._room, self._usable()))
        return room if self._wanted.count is None else min(self._wanted.count, room)

    def start(self, order: TrialRequest) -> str:
        self._waiting[order.name] = order
        self._start_waiting()
        return order.name

    def finished(self, seconds: float) -> list[TrialResult]:
        deadline = time.monotonic() + seconds
        while True:  # in short waits, so that a signal is heard in between
            ends = self._poll()
            if ends or time.monotonic() >= deadline:
                return ends
            time.sleep(POLL_SECONDS)

    def stop(self, handle: str) -> None:
        if trial := self._trials.get(handle):
            trial.stop()
        elif self._waiting.pop(handle, None) is not None:
            self._stopped.append(TrialResult(handle, 128 + signal.SIGTERM))

    def close(self) -> None:
        end_actors(self._ray, [trial.actor for trial in self._trials.values()])
        for trial in self._trials.values():
            trial.release()
        self._trials.clear()
        self._waiting.clear()
        self._stack.close()

    def _poll(self) -> list[TrialResult]:
        self._start_waiting()
        self._usable()
        present = {node.id for node in self._nodes}
        ends, self._stopped = self._stopped, []
        for name, trial in list(self._trials.items()):
            trial.poll()
            if trial.node.id not in present:
                trial.lose()
            if trial.failure:
                self._put_back(trial)
            elif trial.end is not None:
                del self._trials[name]
                ends.append(trial.end)
                if trial.end.is_lost:
                    self._avoid(trial.node)
        return ends

    def _start_waiting(self) -> None:
        for name, order in list(self._waiting.items()):
            node = self._freest()
            if node is None:
                return
            del self._waiting[name]
            marker = self._marker(TrainingJob.from_json(order.job).runs_root.absolute())
            self._trials[name] = RemoteTrial(
                self._ray, order, node, marker, self._wanted, is_embedded=self._is_embedded
            )

    def _put_back(self, trial: RemoteTrial) -> None:
        """Returns a trial that has not started to the queue, for another node."""
        self._ray.kill(trial.actor)
        trial.release()
        del self._trials[trial.order.name]
        self._waiting[trial.order.name] = trial.order
        self._avoid(trial.node)
        self._failures[trial.node.id] += 1
        if trial.has_different_code or self._failures[trial.node.id] >= MAX_FAILURES:
            self._refuse(trial)

    def _refuse(self, trial: RemoteTrial) -> None:
        why = "its code differs: " if trial.has_different_code else ""
        if trial.node.id not in self._refused:
            self._refused[trial.node.id] = f"{trial.node.address}: {why}{trial.failure}"
            with warnings_on_stderr():
                logger.warning("Node left out: %s", self._refused[trial.node.id])
        if not any(self._room(node) for node in self._nodes if node.id not in self._refused):
            raise UsageError(
                f"No node of the cluster can be used. {'; '.join(self._refused.values())}.",
                "Install the same code on every machine, or accept it with cluster.allow_different_code=true.",
            )

    def _avoid(self, node: Node) -> None:
        """Avoids a node for some seconds: Ray may not have noticed yet that it is lost."""
        self._avoided[node.id] = time.monotonic() + AVOID_SECONDS

    def _usable(self) -> list[Node]:
        now = time.monotonic()
        if now - self._nodes_at >= NODES_SECONDS:
            self._nodes_at, self._nodes = now, alive_nodes(self._ray)
        return [one for one in self._nodes if one.id not in self._refused and now >= self._avoided.get(one.id, 0.0)]

    def _freest(self) -> Node | None:
        """The node with the most room by this process's own count; for other users' work, Ray waits."""
        taken = [trial.node.id for trial in self._trials.values()]
        free = [(self._room(node) - taken.count(node.id), node) for node in self._usable()]
        room, node = max(free, key=lambda pair: pair[0], default=(0, None))
        return node if room > 0 else None

    def _room(self, node: Node) -> int:
        """Number of trials that fit on a machine at once."""
        room = int(node.cpus // self._wanted.cpus_each)
        return min(room, int(node.gpus // self._wanted.gpus_each)) if self._wanted.gpus_each else room

    def _marker(self, runs_root: Path) -> str:
        if runs_root not in self._markers:
            self._markers[runs_root] = self._stack.enter_context(marker_file(runs_root))
        return self._markers[runs_root]


def _own_cpus(wanted: SlotRequest) -> int | None:
    """CPUs for a local Ray: the number of parallel trials is used even on a small machine."""
    if wanted.cpus is None and wanted.count is not None:
        return wanted.count * wanted.cpus_each
    return wanted.cpus


ANSWER_SECONDS = 60.0


class RemoteTrial:
    """Of `order`, on `node`. `poll` brings it on; `end` is there when it is over.

    Before its process has started nothing is lost: then `failure` says why this node cannot be used for it.
    """

    def __init__(
        self, ray: Any, order: TrialRequest, node: Node, marker: str, wanted: SlotRequest, *, is_embedded: bool
    ) -> None:
        self.order = order
        self.node = node
        self.end: TrialResult | None = None
        self.failure = ""  # why it did not start on this node
        self.has_different_code = False  # that was the reason
        self._ray = ray
        self._job = TrainingJob.from_json(order.job)
        cluster = self._job.config.cluster
        self._allows_different_code = cluster.allow_different_code
        self._timeout = None if is_embedded else cluster.node_timeout
        self._host = node.address
        self._modules = modules_of(self._job.config)
        self._is_stopped = False
        self._rank: RemoteRank | None = None
        self._mirror: RunMirror | None = None
        by_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
        options = {"num_cpus": wanted.cpus_each, "num_gpus": wanted.gpus_each, "max_restarts": 0}
        self.actor = ray.remote(RankActor).options(**options, scheduling_strategy=by_node).remote(0)
        runs_root = str(self._job.runs_root.absolute())
        self._site: Any = self.actor.site.remote(node.id, node.address, runs_root, marker, self._modules)
        self._started: Any = None

    def poll(self) -> None:
        try:
            if self._rank is None:
                self._advance()
            else:
                self._rank.poll()
                self._conclude(self._rank)
        except self._ray.exceptions.RayError as error:
            self._lose(first_line(error))
        except PalaestraError as error:
            self._finish(TrialResult(self.order.name, error.exit_code, str(error)))

    def lose(self) -> None:
        """Ray reports the machine as lost; open requests to it may never be answered."""
        if self.end is None and not self.failure:
            self._lose("its machine left the cluster")

    def stop(self) -> None:
        self._is_stopped = True
        if self._rank is not None:
            self._rank.send_signal(signal.SIGTERM)

    def release(self) -> None:
        """Releases the copy of the run; the actor has ended."""
        if self._mirror is not None:
            self._mirror.close()

    def _advance(self) -> None:
        """Advances the start, from the actor's first response to the start of its process."""
        if self._started is None and self._is_stopped:
            self._finish(TrialResult(self.order.name, 128 + signal.SIGTERM))
        elif self._started is None and self._ray.wait([self._site], timeout=0)[0]:
            self._start(self._ray.get(self._site))
        elif self._started is not None and self._ray.wait([self._started], timeout=0)[0]:
            self._rank = self._running(self._ray.get(self._started))

    def _start(self, site: ActorSite) -> None:
        if not self._allows_different_code:
            self.failure = different_code(self._ray, self.actor, site, self._modules, ANSWER_SECONDS)
            self.has_different_code = bool(self.failure)
            if self.failure:
                return
        runs_root = self._job.runs_root.absolute()
        delivery = None
        if not site.sees_runs:
            self._mirror = RunMirror(runs_root, self.order.name)
            delivery = upload_for(self._job.config, runs_root, self._mirror)
        self._host = site.host
        self._started = self.actor.start.remote(None, self.order.job, forwarded_variables(), str(Path.cwd()), delivery)

    def _running(self, there: str) -> RemoteRank:
        rank = RemoteRank(
            self._ray,
            self.actor,
            0,
            self._host,
            mirror=self._mirror,
            node_timeout=self._timeout,
            write_output=self._log,
        )
        rank.there = there
        if self._is_stopped:
            rank.send_signal(signal.SIGTERM)
        return rank

    def _conclude(self, rank: RemoteRank) -> None:
        if rank.code is None:
            return
        report = rank.exit_report
        error = f"{report.error} {report.hint}".strip() if report is not None else _silent_end(rank.code)
        self._finish(TrialResult(self.order.name, rank.code, error, is_lost=rank.is_lost))

    def _lose(self, reason: str) -> None:
        if self._rank is None:
            self.failure = reason
            return
        message = f"Ray lost it on {self.node.address}: {reason}"
        if self._mirror is not None:
            self._mirror.lose(message)
        self._finish(TrialResult(self.order.name, LOST, message, is_lost=True))

    def _finish(self, end: TrialResult) -> None:
        self.end = end
        if end.is_lost:
            self._ray.kill(self.actor)  # there may be no process left that could remove its files
        else:
            end_actors(self._ray, [self.actor])
        self.release()

    def _log(self, output: bytes) -> None:
        with self.order.log.open("ab") as log:
            log.write(output)


def _silent_end(code: int) -> str:
    if code < 0:
        return f"Its process was ended by {signal.Signals(-code).name}."
    return "" if code in IN_ORDER else f"It ended with exit code {code} and without a word."
