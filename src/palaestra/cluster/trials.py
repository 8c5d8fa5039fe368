"""Slots for many runs on Ray: each trial is an actor with the processors it asks for, and a process beside it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import asked_address
from palaestra.cluster.connection import open_ray
from palaestra.cluster.nodes import ask_each, sees
from palaestra.cluster.trial import TrialActor
from palaestra.cluster.witness import witness
from palaestra.contracts.errors import UsageError
from palaestra.contracts.trials import TrialEnd
from palaestra.workers.job import Job

if TYPE_CHECKING:
    from palaestra.contracts.trials import SlotsWanted, TrialOrder

LOOK_SECONDS = 0.2
LOST = 1  # exit code of a trial whose machine or actor is gone


@dataclass
class _Trial:
    actor: Any
    ends: Any  # reference to (exit code, error), kept by Ray until the process ends
    log: Path
    stops: list[Any] = field(default_factory=list)


class RaySlots:
    """A `TrialRunner` for a cluster, or for a Ray of one's own; see contracts/trials.py."""

    def __init__(self, wanted: SlotsWanted) -> None:
        self._wanted = wanted
        self._stack = ExitStack()
        self._trials: dict[str, _Trial] = {}
        self._checked: set[Path] = set()  # folders of runs that all machines see
        session = self._stack.enter_context(open_ray(asked_address(wanted.address), cpus=_own_cpus(wanted)))
        self._ray = session.ray
        room = int(session.cpus // wanted.cpus_each)
        if wanted.gpus_each:
            room = min(room, int(session.gpus // wanted.gpus_each))
        if room < 1:
            self._stack.close()
            raise UsageError(
                f"A trial needs {wanted.cpus_each} CPUs and {wanted.gpus_each:g} GPUs; the cluster has "
                f"{session.cpus:g} and {session.gpus:g}.",
                "Give it more machines with 'palaestra worker'.",
            )
        self.slots = room if wanted.count is None else min(wanted.count, room)

    def start(self, order: TrialOrder) -> str:
        job = Job.from_json(order.job)
        self._demand_shared(job.runs_root.absolute())
        actor = (
            self._ray.remote(TrialActor)
            .options(
                num_cpus=self._wanted.cpus_each, num_gpus=self._wanted.gpus_each, max_restarts=0, max_concurrency=2
            )
            .remote()
        )
        ends = actor.run.remote(order.job, str(order.log.absolute()), str(Path.cwd()))
        self._trials[order.name] = _Trial(actor, ends, order.log)
        return order.name

    def finished(self, seconds: float) -> list[TrialEnd]:
        if not self._trials:
            return []
        deadline = time.monotonic() + seconds
        while True:  # in short waits, so that a signal is heard in between
            left = max(0.0, min(LOOK_SECONDS, deadline - time.monotonic()))
            ends = [trial.ends for trial in self._trials.values()]
            ready, _ = self._ray.wait(ends, num_returns=1, timeout=left)
            if ready or time.monotonic() >= deadline:
                break
        done = [handle for handle, trial in self._trials.items() if self._ray.wait([trial.ends], timeout=0)[0]]
        return [self._end(handle) for handle in done]

    def stop(self, handle: str) -> None:
        if trial := self._trials.get(handle):
            trial.stops.append(trial.actor.stop.remote())

    def close(self) -> None:
        for trial in self._trials.values():
            self._ray.kill(trial.actor)
        self._trials.clear()
        self._stack.close()

    def _end(self, handle: str) -> TrialEnd:
        trial = self._trials.pop(handle)
        try:
            code, error = self._ray.get(trial.ends)
        except self._ray.exceptions.RayError as lost:
            first = next((line.strip() for line in str(lost).splitlines() if line.strip()), type(lost).__name__)
            return TrialEnd(handle, LOST, f"Ray lost it: {first}")
        self._ray.kill(trial.actor)
        return TrialEnd(handle, code, error)

    def _demand_shared(self, runs_root: Path) -> None:
        if runs_root in self._checked:
            return
        with witness(runs_root) as name:
            blind = [machine for machine, is_seen in ask_each(self._ray, sees, str(runs_root), name) if not is_seen]
        if blind:
            raise UsageError(
                f"The folder of runs, {runs_root}, is not seen from {', '.join(sorted(blind))}.",
                "Put it on a disk that all machines share, at the same path: PALAESTRA_RUNS_DIR=/shared/runs.",
            )
        self._checked.add(runs_root)


def _own_cpus(wanted: SlotsWanted) -> int | None:
    """For a Ray of one's own: whoever says how many trials go side by side means it, also on a small machine."""
    if wanted.cpus is None and wanted.count is not None:
        return wanted.count * wanted.cpus_each
    return wanted.cpus
