"""From measurements to medians, ratios, and what was promised."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from peers.catalogue import Target
from peers.running import Measurement


@dataclass(frozen=True)
class Block:
    """One setting, measured in one go: in every round each peer once, one after the other."""

    setting: str
    date: str
    load_before: float
    seconds: float
    rounds: tuple[tuple[Measurement, ...], ...]
    absent: dict[str, str] = field(default_factory=dict)  # peer: why it could not be started at all

    @classmethod
    def from_plain(cls, told: dict[str, Any]) -> Block:
        rounds = tuple(tuple(Measurement(**one) for one in measured) for measured in told["rounds"])
        return cls(**{**told, "rounds": rounds})

    def of(self, peer: str) -> list[Measurement]:
        return [one for measured in self.rounds for one in measured if one.peer == peer]


@dataclass(frozen=True)
class Row:
    """Medians over rounds."""

    peer: str
    steps_per_second: float | None
    slowest: float | None
    fastest: float | None
    ours_over: float | None  # how many times as fast we are, within a round
    start_seconds: float | None
    memory_mb: float | None
    cores_used: float | None
    solved_seconds: float | None  # of the rounds in which it was solved
    solved_steps: float | None
    solved: str  # "2 of 3"
    versions: dict[str, str]
    failed: str


TARGETS = (
    Target("sb3", "cleanrl", 60),
    Target("sb3", "cleanrl-2", 60),
    Target("sb3", "large", 10),
    Target("sb3", "large-2", 10),
    Target("sb3", "sb3", 70),
    Target("cleanrl", "cleanrl", 65),
    Target("cleanrl", "cleanrl-2", 65),
    Target("cleanrl", "large", 10),
    Target("cleanrl", "large-2", 10),
    Target("jax", "cleanrl", 1.8),
    Target("jax", "cleanrl-2", 1.8),
    Target("jax", "large", 1.6),
    Target("jax", "large-2", 2.5),
    Target("jax", "solve", 10, quantity="solved_seconds"),
    Target("puffer", "cleanrl", 50),
    Target("puffer", "cleanrl-2", 50),
    Target("puffer", "large", 5),
    Target("puffer", "memory", 1.1),
    Target("puffer", "memory", 2, side="palaestra-cheap"),
    Target("sb3", "halfcheetah", 8),
    Target("sb3", "halfcheetah-2", 9),
    Target("eager", "cleanrl", 3, side="palaestra-torch"),
    Target("eager", "large", 3.5, side="palaestra-torch"),
)


def middle(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def rows_of(block: Block) -> list[Row]:
    names = list(dict.fromkeys(one.peer for measured in block.rounds for one in measured))
    return [_row(block, name) for name in names]


def _row(block: Block, name: str) -> Row:
    good = [one for one in block.of(name) if not one.failed]
    speeds = [one.steps_per_second for one in good if one.steps_per_second is not None]
    times = [one.solved_seconds for one in good]
    return Row(
        peer=name,
        steps_per_second=middle([*speeds]),
        slowest=min(speeds, default=None),
        fastest=max(speeds, default=None),
        ours_over=ratio(block, Target(name, block.setting, 0)),
        start_seconds=middle([one.start_seconds for one in good]),
        memory_mb=middle([one.memory_mb for one in good]),
        cores_used=middle([one.cpu_seconds / one.process_seconds for one in good]),
        solved_seconds=middle(times),
        solved_steps=middle([one.solved_steps for one in good]),
        solved=f"{sum(time is not None for time in times)} of {len(times)}",
        versions=next((one.versions for one in good), {}),
        failed=next((one.failed for one in block.of(name) if one.failed), ""),
    )


def ratio(block: Block, target: Target) -> float | None:
    """Within each round in which both have the figure, and the median of those."""
    found = []
    for measured in block.rounds:
        told = {one.peer: getattr(one, target.quantity) for one in measured if not one.failed}
        side, against = told.get(target.side), told.get(target.against)
        if side and against:
            found.append(against / side if target.quantity == "solved_seconds" else side / against)
    return median(found) if found else None
