"""Slots for many runs on Ray: each trial is an actor on a machine that has room, and a process beside it.

The slots follow the cluster: a machine that joins is used, one that leaves is not waited for, and one whose code
differs is named and left out.
"""

from __future__ import annotations

import logging
import signal
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

from palaestra.cluster.address import asked_address
from palaestra.cluster.connection import open_ray
from palaestra.cluster.heartbeat import nodes
from palaestra.cluster.placed import end_actors
from palaestra.cluster.shared_dir_check import marker_file
from palaestra.cluster.trial import PlacedTrial
from palaestra.core.errors import UsageError
from palaestra.core.trials import TrialEnd
from palaestra.runner.job import TrainingJob
from palaestra.runner.logs import warnings_on_stderr

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.cluster.heartbeat import Node
    from palaestra.core.trials import SlotsWanted, TrialOrder

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1
NODES_SECONDS = 1.0  # between two questions which nodes there are
AVOID_SECONDS = 5.0
MAX_FAILURES = 3  # to start a trial on a node, before it is left out for good


class RaySlots:
    """A `TrialRunner` for a cluster, or for a Ray of one's own; see core/trials.py."""

    def __init__(self, wanted: SlotsWanted) -> None:
        self._wanted = wanted
        self._stack = ExitStack()
        self._trials: dict[str, PlacedTrial] = {}
        self._waiting: dict[str, TrialOrder] = {}  # their machine was unfit, or left before they began
        self._stopped: list[TrialEnd] = []  # of those that never began
        self._refused: dict[str, str] = {}  # node -> what differs there
        self._failures: Counter[str] = Counter()  # node -> trials that could not start there
        self._avoided: dict[str, float] = {}  # node -> until when, after something was lost there
        self._markers: dict[Path, str] = {}
        self._nodes: list[Node] = []
        self._nodes_at = float("-inf")
        opened = open_ray(asked_address(wanted.address), cpus=_own_cpus(wanted), is_checked=False)  # trials check it
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
        """As many as the machines that are there now have room for; 0 when all have left."""
        room = sum(map(self._room, self._usable()))
        return room if self._wanted.count is None else min(self._wanted.count, room)

    def start(self, order: TrialOrder) -> str:
        self._waiting[order.name] = order
        self._start_waiting()
        return order.name

    def finished(self, seconds: float) -> list[TrialEnd]:
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
            self._stopped.append(TrialEnd(handle, 128 + signal.SIGTERM))

    def close(self) -> None:
        end_actors(self._ray, [trial.actor for trial in self._trials.values()])
        for trial in self._trials.values():
            trial.release()
        self._trials.clear()
        self._waiting.clear()
        self._stack.close()

    def _poll(self) -> list[TrialEnd]:
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
            self._trials[name] = PlacedTrial(
                self._ray, order, node, marker, self._wanted, is_embedded=self._is_embedded
            )

    def _put_back(self, trial: PlacedTrial) -> None:
        """It has not started, and waits for another node."""
        self._ray.kill(trial.actor)
        trial.release()
        del self._trials[trial.order.name]
        self._waiting[trial.order.name] = trial.order
        self._avoid(trial.node)
        self._failures[trial.node.id] += 1
        if trial.has_other_code or self._failures[trial.node.id] >= MAX_FAILURES:
            self._refuse(trial)

    def _refuse(self, trial: PlacedTrial) -> None:
        why = "its code differs: " if trial.has_other_code else ""
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
        """Ray may not know yet that it is gone; and should it be well, a few seconds are no loss."""
        self._avoided[node.id] = time.monotonic() + AVOID_SECONDS

    def _usable(self) -> list[Node]:
        now = time.monotonic()
        if now - self._nodes_at >= NODES_SECONDS:
            self._nodes_at, self._nodes = now, nodes(self._ray)
        return [one for one in self._nodes if one.id not in self._refused and now >= self._avoided.get(one.id, 0.0)]

    def _freest(self) -> Node | None:
        """By our own count: what others do on a machine, Ray waits for."""
        taken = [trial.node.id for trial in self._trials.values()]
        free = [(self._room(node) - taken.count(node.id), node) for node in self._usable()]
        room, node = max(free, key=lambda pair: pair[0], default=(0, None))
        return node if room > 0 else None

    def _room(self, node: Node) -> int:
        """Trials that fit on a machine side by side."""
        room = int(node.cpus // self._wanted.cpus_each)
        return min(room, int(node.gpus // self._wanted.gpus_each)) if self._wanted.gpus_each else room

    def _marker(self, runs_root: Path) -> str:
        if runs_root not in self._markers:
            self._markers[runs_root] = self._stack.enter_context(marker_file(runs_root))
        return self._markers[runs_root]


def _own_cpus(wanted: SlotsWanted) -> int | None:
    """For a Ray of one's own: whoever says how many trials go side by side means it, also on a small machine."""
    if wanted.cpus is None and wanted.count is not None:
        return wanted.count * wanted.cpus_each
    return wanted.cpus
