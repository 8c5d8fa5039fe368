"""What an update does to all weights alike, whatever policy they belong to: clipping and pulls.

Everything works on the one flat block of weights, so each costs one operation per step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.config.optimizer import RegularizeConfig


class Regularizer:
    def __init__(self, config: RegularizeConfig, flat: Tensor) -> None:
        self._config = config
        self._initial = flat.detach().clone() if config.l2_init else None  # part of the trainer's state

    def add_slopes(self, grad: Tensor, flat: Tensor) -> None:
        """Before the gradient is clipped: the slopes of l2 / 2 |w|^2 and of l2_init / 2 |w - initial|^2."""
        if self._config.l2:
            grad.add_(flat, alpha=self._config.l2)
        if self._initial is not None:
            grad.add_(flat - self._initial, alpha=self._config.l2_init)

    def bound(self, flat: Tensor) -> None:
        """After the step: every weight within ± clip_range."""
        clip_range = self._config.clip_range
        if clip_range is not None:
            flat.clamp_(-clip_range, clip_range)

    def capture(self) -> dict[str, Tensor]:
        return {} if self._initial is None else {"initial": self._initial.clone()}

    def restore(self, state: dict[str, Any]) -> None:
        if self._initial is not None:
            self._initial.copy_(state["initial"])
