"""One world at one instant, as plain arrays: what is drawn, sent to a browser, recorded, and compared in tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Integers = np.ndarray[Any, np.dtype[np.int32]]
    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

ENDLESS = -1  # stock of a station that can be used for ever


@dataclass(frozen=True)
class WorldState:
    step: int
    max_steps: int
    walls: Bytes  # [height, width] 1 where a wall is
    stations: Integers  # [stations, 5] y, x, kind (index into STATIONS), cooldown, stock left or ENDLESS
    agents: Integers  # [agents, 6] y, x, facing (0 north to 3 west), frozen, team, last action or -1
    inventories: Integers  # [agents, items]

    @property
    def height(self) -> int:
        return int(self.walls.shape[0])

    @property
    def width(self) -> int:
        return int(self.walls.shape[1])
