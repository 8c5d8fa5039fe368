"""Positions of the agent's own episodes, the newest kept; what expert iteration learns from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from palaestra.apps.matmul.agent_demonstrations import Lessons, joined

if TYPE_CHECKING:
    from palaestra.apps.matmul.contractions import Views


class AgentMemory:
    def __init__(self, views: Views, size: int) -> None:
        self._size = size
        self.lessons = Lessons(
            np.zeros((0, *views.sizes), np.uint8), np.zeros((0, 3), np.int64), np.zeros(0, np.int64), np.zeros(0, bool)
        )

    def add(self, lessons: Lessons) -> None:
        self.lessons = joined([self.lessons, lessons]).chosen(slice(-self._size, None))

    def draw(self, count: int, dice: np.random.Generator) -> Lessons:
        """With repetition; fewer where there are not that many."""
        count = min(count, len(self.lessons))
        return self.lessons.chosen(dice.integers(0, max(len(self.lessons), 1), size=count))

    def capture(self) -> dict[str, Any]:
        kept = self.lessons
        return {
            "tensors": torch.from_numpy(kept.tensors.copy()),
            "moves": torch.from_numpy(kept.moves.copy()),
            "remaining": torch.from_numpy(kept.remaining.copy()),
            "are_good": torch.from_numpy(kept.are_good.copy()),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.lessons = Lessons(**{name: part.numpy().copy() for name, part in state.items()})
