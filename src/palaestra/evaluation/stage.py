"""What playing a single environment and playing a world of many have in common: a clock and a camera."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from palaestra.core.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium

    from palaestra.envs.batch import NativeBatch

    Frame = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]


class OutOfTime(Exception):
    """The episode under way is given up; it has no result."""


class Onlooker(Protocol):
    """Who may glance at an episode while it is played; it must not touch what it sees."""

    def glance(
        self,
        playing: gymnasium.Env[Any, Any] | NativeBatch,
        reward: float,
        total_reward: float,
        length: int,
    ) -> None:
        """After the reset and after every step; of a batch of one world the numbers are means over its players."""
        ...


def show(picture: Any, on_frame: Callable[[Frame], None], whose: object) -> None:
    """Hand on what was drawn, once it is known to be a picture."""
    if not (isinstance(picture, np.ndarray) and picture.ndim == 3 and picture.shape[2] == 3):
        raise RunFailed(f"{whose} gave {type(picture).__name__} instead of a picture [height, width, 3].")
    on_frame(picture.astype(np.uint8, copy=False))
