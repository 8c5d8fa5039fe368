"""The compiled worlds (native/arena/). Arrays are used without conversion; one that does not fit is an error."""

from collections.abc import Sequence
from typing import Any

import numpy as np

def tables() -> dict[str, int]:
    """How many items, stations, actions, codes, self, features and counters there are."""

class Task:
    """The fields of ArenaSettings as numbers; checked when a Batch is made."""

    agents: int
    teams: int
    team_share: float
    width: int
    height: int
    room: int
    walls: int
    inventory: Sequence[int]  # one per item
    limit: int
    rewards: Sequence[float]  # one per item
    reward_caps: Sequence[int]  # one per item; -1: none
    combat: bool
    reach: int
    freeze: int
    steal: int
    form: int  # 0 bytes, 1 tokens, 2 box
    view: int
    sight: int
    show_state: bool
    tokens: int
    max_steps: int

    def __init__(self) -> None: ...
    def set_station(self, kind: int, count: int, cost: int, cooldown: int, stock: int) -> None: ...

class Batch:
    def __init__(self, tasks: Sequence[Task], world_count: int, threads: int) -> None: ...
    def reset(
        self,
        worlds: Sequence[int],
        seeds: Sequence[int],
        tasks: Sequence[int],
        views: np.ndarray | None,
        selves: np.ndarray | None,
    ) -> None: ...
    def step(
        self, actions: np.ndarray, views: np.ndarray | None, selves: np.ndarray | None, rewards: np.ndarray
    ) -> list[int]: ...
    def has_world(self, world: int) -> bool:
        """Whether it has been reset; IndexError when there is no such world"""

    def shapes(self, world: int) -> tuple[int, int, int]:
        """Height, width and stations of the world's task; ValueError when it was never reset"""

    def read(self, world: int, tables: dict[str, np.ndarray]) -> tuple[int, int, int]:
        """Fills those tables of a captured world that are given; its task, step and random state"""

    def restore(self, worlds: list[tuple[int, int, int, dict[str, np.ndarray]] | None]) -> None:
        """Task, step, random state and all tables of each world, None for one that was never reset; all or nothing"""

    def step_api(self) -> Any:
        """A PyCapsule as native/batch_step_api.h describes it; it keeps the batch alive"""

    def check(self) -> None:
        """RuntimeError for a violated invariant: shared cells, items created or lost. For tests."""
