"""What begins and ends with the daemon's HTTP side, in this order; the last begun ends first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.web.cluster import keep_clusters
from palaestra.web.frames_room import keep_frames
from palaestra.web.series import keep_series
from palaestra.web.tensorboard import keep_tensorboard

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from palaestra.web.house import House

LIFESPANS: tuple[Callable[[House], AbstractAsyncContextManager[None]], ...] = (
    keep_series,
    keep_tensorboard,
    keep_frames,
    keep_clusters,
)
