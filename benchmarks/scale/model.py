"""Formulae for updates per second of many ranks, fed with figures that were measured on this machine.

An update is a rollout and then, for every minibatch, a gradient and its sum over all ranks, at which everybody waits
for the slowest rank. Times are seconds, sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from palaestra.training.distributed.ordered_sum import ONE_ROUND_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scale.sums import SumFigure

FLOAT = 4
DELAYS = 2  # one way, for every message: gloo sends when the receiver has said that it is ready


@dataclass(frozen=True)
class Cluster:
    ranks: int
    per_machine: int
    latency: float  # one way between two machines
    bandwidth: float  # bytes per second of a machine, in each direction

    @property
    def machines(self) -> int:
        return ceil(self.ranks / self.per_machine)

    @property
    def is_network(self) -> bool:
        return self.machines > 1


@dataclass(frozen=True)
class SumCosts:
    """What a sum costs a rank before the network adds anything, measured over loopback and in shared memory."""

    step: float  # of the ring: from one rank to the next
    exchange: float  # one round between two ranks
    message: float  # for every further message of a round
    byte: float  # for every byte that a rank sends
    memory: float  # one sum in shared memory of two ranks
    memory_rank: float  # for every further rank
    memory_byte: float


@dataclass(frozen=True)
class SumTime:
    latency: float = 0.0  # of the network
    messages: float = 0.0  # work of sender and receiver for each of them
    bytes: float = 0.0  # copies and bandwidth

    @property
    def total(self) -> float:
        return self.latency + self.messages + self.bytes


@dataclass(frozen=True)
class Workload:
    """One rank's update, as measured alone."""

    name: str
    numbers: int  # in a gradient
    minibatches: int  # of an update
    small_collectives: int  # of an update: statistics of advantages, reports, agreements
    steps: int  # of the environments, per update
    rollout: tuple[float, ...]  # seconds, many samples
    minibatch: tuple[float, ...]  # seconds of one gradient, many samples

    @property
    def seconds_alone(self) -> float:
        return float(np.mean(self.rollout) + self.minibatches * np.mean(self.minibatch))


@dataclass(frozen=True)
class UpdateTime:
    compute: float
    stragglers: float  # waiting for the slowest rank
    sums: SumTime  # of all gradients
    small: SumTime  # of all small collectives

    @property
    def total(self) -> float:
        return self.compute + self.stragglers + self.sums.total + self.small.total

    def largest_loss(self) -> str:
        """What takes the most time beside computing."""
        parts = {
            "stragglers": self.stragglers,
            "latency": self.sums.latency + self.small.latency,
            "messages": self.sums.messages + self.small.messages,
            "bandwidth": self.sums.bytes + self.small.bytes,
        }
        return max(parts, key=lambda name: parts[name])


def ring_sum(cluster: Cluster, size: int, costs: SumCosts) -> SumTime:
    """gloo's all_reduce: 2(N-1) steps one after another, of which one in `per_machine` crosses the network."""
    if cluster.ranks == 1:
        return SumTime()
    steps = 2 * (cluster.ranks - 1)
    sent = steps / cluster.ranks * size
    crossings = steps * cluster.machines / cluster.ranks if cluster.is_network else 0
    wire = sent / cluster.bandwidth if cluster.is_network else 0.0
    return SumTime(DELAYS * crossings * cluster.latency, steps * costs.step, max(sent * costs.byte, wire))


def ordered_sum(cluster: Cluster, size: int, costs: SumCosts) -> SumTime:
    """Ours: all messages of a round at the same time, and at most two rounds; all ranks of a machine share its link."""
    ranks = cluster.ranks
    if ranks == 1:
        return SumTime()
    if ranks == 2 or size * ranks <= ONE_ROUND_BYTES:
        rounds, sent = 1, float((ranks - 1) * size)
    else:
        rounds, sent = 2, 2 * (ranks - 1) / ranks * size
    outside = max(0, ranks - cluster.per_machine) / (ranks - 1)  # share of the messages that leave the machine
    wire = sent * outside * min(ranks, cluster.per_machine) / cluster.bandwidth
    latency = rounds * DELAYS * cluster.latency if cluster.is_network else 0.0
    messages = rounds * (costs.exchange + (ranks - 2) * costs.message)
    # The first messages are on the wire while the rank still works on the others.
    return SumTime(latency, messages, max(sent * costs.byte, wire - messages))


def grouped_sum(cluster: Cluster, size: int, costs: SumCosts) -> SumTime:
    """Not built: ranks of a machine hand their rows over in memory, so that a rank has one message per machine.

    Rows are sent as they are and added in the order of ranks, so the bits are those of `ordered_sum`.
    """
    if not cluster.is_network:
        return memory_sum(cluster, size, costs)
    local = memory_sum(Cluster(cluster.per_machine, cluster.per_machine, 0.0, 1.0), size, costs)
    machines, per_machine = cluster.machines, cluster.per_machine
    wire = size * (per_machine + 1) * (machines - 1) / machines / cluster.bandwidth
    messages = 2 * (costs.exchange + (machines - 2) * costs.message) + 2 * local.messages
    copies = size * (per_machine + 1) / per_machine * costs.byte + 2 * local.bytes
    return SumTime(2 * DELAYS * cluster.latency, messages, max(copies, wire - messages))


def memory_sum(cluster: Cluster, size: int, costs: SumCosts) -> SumTime:
    if cluster.ranks == 1:
        return SumTime()
    return SumTime(0.0, costs.memory + (cluster.ranks - 2) * costs.memory_rank, size * costs.memory_byte)


ALGORITHMS = {"ring": ring_sum, "ordered": ordered_sum, "grouped": grouped_sum, "memory": memory_sum}


def expected_maximum(samples: Sequence[float], ranks: int) -> float:
    """Of `ranks` independent draws from the samples: P(max <= x_k) = (k / n)^ranks."""
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    below = (np.arange(len(ordered) + 1) / len(ordered)) ** ranks
    return float(ordered @ np.diff(below))


def predict_update(work: Workload, cluster: Cluster, algorithm: str, costs: SumCosts) -> UpdateTime:
    """On one machine ranks always share memory, unless the caller asks for an algorithm of the network by a Cluster."""
    add = ALGORITHMS[algorithm]
    slowest = expected_maximum(work.rollout, cluster.ranks)
    slowest += work.minibatches * expected_maximum(work.minibatch, cluster.ranks)
    return UpdateTime(
        work.seconds_alone,
        max(0.0, slowest - work.seconds_alone),
        times(work.minibatches, add(cluster, work.numbers * FLOAT, costs)),
        times(work.small_collectives, add(cluster, 8 * FLOAT, costs)),
    )


def times(count: int, one: SumTime) -> SumTime:
    return SumTime(count * one.latency, count * one.messages, count * one.bytes)


def fit_costs(figures: Sequence[SumFigure]) -> SumCosts:
    """From figures without a delay: `ring`, `ordered` and `memory`, each for few and for many numbers."""
    wall = {(one.algorithm, one.ranks, one.numbers): one.seconds for one in figures if not one.delay_seconds}
    cpu = {(one.algorithm, one.ranks, one.numbers): one.cpu_seconds for one in figures if not one.delay_seconds}
    most_ranks = max(ranks for algorithm, ranks, _ in wall if algorithm == "ordered")
    further = most_ranks - 2
    # More ranks than cores wait for each other, so what a further message costs is read from processor time.
    message = (least(cpu, "ordered", most_ranks) - least(cpu, "ordered", 2)) / further
    memory_rank = (least(cpu, "memory", most_ranks) - least(cpu, "memory", 2)) / further
    return SumCosts(
        step=least(wall, "ring", 2) / 2,
        exchange=least(wall, "ordered", 2),
        message=max(0.0, message),
        byte=slope(wall, "ordered"),
        memory=least(wall, "memory", 2),
        memory_rank=max(0.0, memory_rank),
        memory_byte=slope(wall, "memory"),
    )


def least(seconds: dict[tuple[str, int, int], float], algorithm: str, ranks: int) -> float:
    """Of all sizes: where a small sum took longer than a large one, something else was running."""
    return min(time for (name, count, _), time in seconds.items() if (name, count) == (algorithm, ranks))


def slope(wall: dict[tuple[str, int, int], float], algorithm: str) -> float:
    """Seconds per byte between two ranks."""
    most = max(numbers for _, _, numbers in wall)
    return (wall[algorithm, 2, most] - least(wall, algorithm, 2)) / (most * FLOAT)
