"""A simulation of the same things message by message, as a check of the formulae in `model.py` and `workers.py`."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from palaestra.training.distributed.ordered_sum import ONE_ROUND_BYTES
from scale.model import DELAYS
from scale.workers import QUEUED_PER_WORKER, REQUESTS_AT_ONCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scale.model import Cluster, SumCosts, Workload
    from scale.workers import EvaluationCosts

Times = "NDArray[np.float64]"


def simulate_ring(start: Times, cluster: Cluster, size: int, costs: SumCosts) -> Times:
    """When each rank has the sum: it takes step i once it has the message of step i - 1 from its neighbour."""
    ranks = cluster.ranks
    chunk = size / ranks
    neighbour = (np.arange(ranks) + 1) % ranks
    crosses = machine_of(cluster) != machine_of(cluster)[neighbour]
    transfer = np.where(crosses, DELAYS * cluster.latency + chunk / cluster.bandwidth, 0.0)
    copy = chunk * costs.byte
    now = start.copy()
    for _ in range(2 * (ranks - 1)):
        now = np.maximum(now, now[neighbour] + transfer) + costs.step + copy
    return now


def simulate_ordered(start: Times, cluster: Cluster, size: int, costs: SumCosts) -> Times:
    """One or two rounds, in each of which every rank sends to every other and waits for all that it receives."""
    if cluster.ranks == 2 or size * cluster.ranks <= ONE_ROUND_BYTES:
        return simulate_round(start, cluster, size, costs)
    chunk = size / cluster.ranks
    return simulate_round(simulate_round(start, cluster, chunk, costs), cluster, chunk, costs)


def simulate_round(start: Times, cluster: Cluster, size: float, costs: SumCosts) -> Times:
    """A rank hands its messages over one after another; those to other machines queue at both machines' links."""
    ranks, machine = cluster.ranks, machine_of(cluster)
    offset = np.arange(1, ranks)
    target = (np.arange(ranks)[:, None] + offset) % ranks  # [rank, message]
    arrived = start[:, None] + costs.exchange + (offset - 1) * costs.message + np.zeros_like(target, dtype=float)
    crosses = machine[:, None] != machine[target]
    sender = np.broadcast_to(machine[:, None], target.shape)[crosses]
    sent = pass_links(arrived[crosses], sender, size / cluster.bandwidth)
    arrived[crosses] = pass_links(sent + DELAYS * cluster.latency, machine[target][crosses], size / cluster.bandwidth)
    complete = np.zeros(ranks)
    np.maximum.at(complete, target.ravel(), arrived.ravel())
    return np.maximum(complete, start) + (ranks - 1) * size * costs.byte


def pass_links(ready: Times, link: NDArray[np.int64], seconds: float) -> Times:
    """When each message has passed its link, which serves one after another, first come first served."""
    done = np.empty_like(ready)
    for number in np.unique(link):
        own = np.flatnonzero(link == number)
        own = own[np.argsort(ready[own], kind="stable")]
        position = np.arange(len(own))
        done[own] = np.maximum.accumulate(ready[own] - position * seconds) + (position + 1) * seconds
    return done


def machine_of(cluster: Cluster) -> NDArray[np.int64]:
    return np.arange(cluster.ranks) // cluster.per_machine


SIMULATED = {"ring": simulate_ring, "ordered": simulate_ordered}


def simulate_update(
    work: Workload, cluster: Cluster, algorithm: str, costs: SumCosts, updates: int, rng: np.random.Generator
) -> float:
    """Mean seconds of an update; every rank draws its own times and goes on by itself until somebody is needed."""
    add, now = SIMULATED[algorithm], np.zeros(cluster.ranks)
    for _ in range(updates):
        now = now + rng.choice(work.rollout, cluster.ranks)
        for _ in range(work.small_collectives):
            now = add(now, cluster, 32, costs)
        for _ in range(work.minibatches):
            now = now + rng.choice(work.minibatch, cluster.ranks)
            now = add(now, cluster, work.numbers * 4, costs)
    return float(now.max()) / updates


def simulate_workers(costs: EvaluationCosts, workers: int, shares: int, rng: np.random.Generator) -> float:
    """Shares per second. The driver does one thing at a time: it sends a share, or takes a result."""
    size = costs.share_size(workers)
    episodes: NDArray[np.float64] = rng.choice(costs.episode_samples, (shares, size))
    durations = episodes.sum(axis=1) + costs.task
    most = min(QUEUED_PER_WORKER * workers, REQUESTS_AT_ONCE * costs.shares_of(workers))
    free = [0.0] * workers  # when each worker has played what it was given
    under_way: list[float] = []  # when each share will have been played
    driver, sent, taken = 0.0, 0, 0
    while taken < shares:
        is_due = under_way and under_way[0] <= driver
        if sent < shares and len(under_way) < most and not is_due:
            driver += costs.driver / 2
            end = max(driver, heapq.heappop(free)) + durations[sent]
            heapq.heappush(free, end)
            heapq.heappush(under_way, end)
            sent += 1
        else:
            driver = max(driver, heapq.heappop(under_way)) + costs.driver / 2
            taken += 1
    return shares / driver
