"""What the compiled engine reads of observations: the part that is the network's vector, and those that are codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.training.engines.codes import InputCode, InputPlan, part_of, plan_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
    from palaestra.core.spaces import SpaceSpec
    from palaestra.training.engines.codes import LayerPlan


class Seen:
    """Views of the tape's blocks, each [T + 1, B, …]."""

    def __init__(self, plan: LayerPlan, tape: RolloutBuffer) -> None:
        self._vector_part = plan.part
        self._code_parts = plan.table_parts
        self._blocks = tape.blocks
        self.vector: NDArray[Any] = np.empty(0, np.uint8) if plan.part is None else tape.blocks[plan.part]
        self.codes: list[NDArray[np.uint8]] = [tape.blocks[name] for name in plan.table_parts]

    def stacked(self, observations: Sequence[Any]) -> tuple[NDArray[Any], list[NDArray[np.uint8]]]:
        """Single observations, as environments give them: the vector's part, and each table's, all [K, …]."""
        vector = np.empty(0, np.uint8) if self._vector_part is None else self._stack(self._vector_part, observations)
        return vector, [self._stack(name, observations) for name in self._code_parts]

    def _stack(self, part: str, observations: Sequence[Any]) -> NDArray[Any]:
        block = self._blocks[part]
        if not observations:
            return block[0, :0]
        rows = [observation[part] if part else observation for observation in observations]
        return np.ascontiguousarray(np.stack(rows), dtype=block.dtype)


def vector_input(plan: LayerPlan, space: SpaceSpec) -> InputPlan:
    """How slot 0 is made of the observation."""
    if plan.part is None:
        return InputPlan(InputCode.BYTES, 0, [], [])
    return plan_input(part_of(space, plan.part))
