"""A formula for evaluations per second of many Ray workers, and which of its terms is the smallest."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from palaestra.cluster.evaluation.dispatch import LARGEST_SHARE, SHARES_PER_PROCESSOR
from palaestra.cluster.evaluation.driver import PER_PROCESSOR as QUEUED_PER_WORKER
from palaestra.cluster.evaluation.jobs import AT_ONCE as REQUESTS_AT_ONCE

__all__ = ["QUEUED_PER_WORKER", "REQUESTS_AT_ONCE", "EvaluationCosts", "Prediction", "predict_evaluations"]

OBJECT_OVERHEAD = 2_000  # bytes that Ray adds to a task and to its result: descriptions, owners, acknowledgements


@dataclass(frozen=True)
class EvaluationCosts:
    name: str
    episodes: int  # of one evaluation
    episode_samples: tuple[float, ...]  # seconds that a worker plays
    task: float  # seconds of a worker for each share beyond its episodes
    driver: float  # CPU seconds of the driver for each share: sent, awaited, checked, reported
    requester: float  # CPU seconds of the process that asks, for each evaluation
    head: float  # CPU seconds of Ray on the head, for each share
    weights: int  # bytes of a checkpoint
    share_bytes: int  # of the text that describes a share, with its sidecar
    episode_bytes: int  # of the result of one episode

    @property
    def episode(self) -> float:
        return float(np.mean(self.episode_samples))

    def share_size(self, workers: int) -> int:
        """Episodes of a share while many requests wait; as `palaestra.cluster.evaluation.dispatch` decides it."""
        waiting = REQUESTS_AT_ONCE * self.episodes
        return min(LARGEST_SHARE, self.episodes, max(1, ceil(waiting / (SHARES_PER_PROCESSOR * workers))))

    def shares_of(self, workers: int) -> int:
        """Of one evaluation."""
        return ceil(self.episodes / self.share_size(workers))


@dataclass(frozen=True)
class Prediction:
    workers: int
    limits: dict[str, float]  # evaluations per second that each part could bring by itself

    @property
    def evaluations_per_second(self) -> float:
        return min(self.limits.values())

    @property
    def first_limit(self) -> str:
        return min(self.limits, key=lambda name: self.limits[name])


def predict_evaluations(
    costs: EvaluationCosts, workers: int, per_machine: int, bandwidth: float, drivers: int = 1
) -> Prediction:
    """`drivers`: commands that ask at the same time, each with its own driver; Ray's head stays one."""
    shares, machines = costs.shares_of(workers), ceil(workers / per_machine)
    seconds = costs.episodes * costs.episode + shares * costs.task  # of a worker, for one evaluation
    busy = min(workers, drivers * REQUESTS_AT_ONCE * shares)
    sent = costs.weights * min(machines, shares)  # a machine fetches the weights once, whatever it plays of them
    sent += shares * (costs.share_bytes + OBJECT_OVERHEAD) + costs.episodes * costs.episode_bytes
    return Prediction(
        workers,
        {
            "workers": workers / seconds,
            "requests at once": busy / seconds if busy < workers else float("inf"),
            "driver": drivers / (shares * costs.driver) if costs.driver else float("inf"),
            "requester": drivers / costs.requester if costs.requester else float("inf"),
            "head of Ray": 1 / (shares * costs.head) if costs.head else float("inf"),
            "network": bandwidth / sent,
        },
    )
