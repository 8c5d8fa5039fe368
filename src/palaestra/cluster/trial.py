"""One trial on a machine of the cluster: an actor and a process that are started step by step, without waiting."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.cluster.placed import LOST, PlacedRank, end_actors, first_line
from palaestra.cluster.rank import RankActor
from palaestra.cluster.rank_setup import delivery_for, different_code, forwarded_variables, modules_of
from palaestra.cluster.run_mirror import RunMirror
from palaestra.core.errors import PalaestraError
from palaestra.core.trials import TrialEnd
from palaestra.runner.job import TrainingJob
from palaestra.runner.launch import IN_ORDER

if TYPE_CHECKING:
    from palaestra.cluster.heartbeat import Node
    from palaestra.cluster.rank import Site
    from palaestra.core.trials import SlotsWanted, TrialOrder

ANSWER_SECONDS = 60.0


class PlacedTrial:
    """Of `order`, on `node`. `poll` brings it on; `end` is there when it is over.

    Before its process has started nothing is lost: then `failure` says why this node cannot be used for it.
    """

    def __init__(
        self, ray: Any, order: TrialOrder, node: Node, marker: str, wanted: SlotsWanted, *, is_embedded: bool
    ) -> None:
        self.order = order
        self.node = node
        self.end: TrialEnd | None = None
        self.failure = ""  # why it did not start on this node
        self.has_other_code = False  # that was the reason
        self._ray = ray
        self._job = TrainingJob.from_json(order.job)
        cluster = self._job.config.cluster
        self._allows_different_code = cluster.allow_different_code
        self._timeout = None if is_embedded else cluster.node_timeout
        self._host = node.address
        self._modules = modules_of(self._job.config)
        self._is_stopped = False
        self._rank: PlacedRank | None = None
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
                self._bring_on()
            else:
                self._rank.poll()
                self._conclude(self._rank)
        except self._ray.exceptions.RayError as error:
            self._lose(first_line(error))
        except PalaestraError as error:
            self._finish(TrialEnd(self.order.name, error.exit_code, str(error)))

    def lose(self) -> None:
        """Ray says that the machine is gone; what was asked of it may never be answered."""
        if self.end is None and not self.failure:
            self._lose("its machine left the cluster")

    def stop(self) -> None:
        self._is_stopped = True
        if self._rank is not None:
            self._rank.send_signal(signal.SIGTERM)

    def release(self) -> None:
        """Let go of the copy of its run; the actor has ended."""
        if self._mirror is not None:
            self._mirror.close()

    def _bring_on(self) -> None:
        """From the actor's first answer to the start of its process."""
        if self._started is None and self._is_stopped:
            self._finish(TrialEnd(self.order.name, 128 + signal.SIGTERM))
        elif self._started is None and self._ray.wait([self._site], timeout=0)[0]:
            self._start(self._ray.get(self._site))
        elif self._started is not None and self._ray.wait([self._started], timeout=0)[0]:
            self._rank = self._running(self._ray.get(self._started))

    def _start(self, site: Site) -> None:
        if not self._allows_different_code:
            self.failure = different_code(self._ray, self.actor, site, self._modules, ANSWER_SECONDS)
            self.has_other_code = bool(self.failure)
            if self.failure:
                return
        runs_root = self._job.runs_root.absolute()
        delivery = None
        if not site.sees_runs:
            self._mirror = RunMirror(runs_root, self.order.name)
            delivery = delivery_for(self._job.config, runs_root, self._mirror)
        self._host = site.host
        self._started = self.actor.start.remote(None, self.order.job, forwarded_variables(), str(Path.cwd()), delivery)

    def _running(self, there: str) -> PlacedRank:
        rank = PlacedRank(
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

    def _conclude(self, rank: PlacedRank) -> None:
        if rank.code is None:
            return
        exit_report = rank.exit_report
        error = f"{exit_report.error} {exit_report.hint}".strip() if exit_report is not None else _silent_end(rank.code)
        self._finish(TrialEnd(self.order.name, rank.code, error, is_lost=rank.is_lost))

    def _lose(self, reason: str) -> None:
        if self._rank is None:
            self.failure = reason
            return
        message = f"Ray lost it on {self.node.address}: {reason}"
        if self._mirror is not None:
            self._mirror.lose(message)
        self._finish(TrialEnd(self.order.name, LOST, message, is_lost=True))

    def _finish(self, end: TrialEnd) -> None:
        self.end = end
        if end.is_lost:
            self._ray.kill(self.actor)  # nobody may be there to remove what it wrote
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
