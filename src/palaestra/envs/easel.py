"""Drawing an environment that was not made to be drawn, without leaving a trace in it.

Environments that train are made without a render mode, because some do more work, or other work, when they have one.
It is lent to them for as long as a picture is drawn. What drawing left in their attributes (windows, clocks, fonts) is
kept here until the next time: stepping, capturing and closing find everything as if nobody had looked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.contracts.errors import RunFailed
from palaestra.envs.headless import prepare_rendering
from palaestra.envs.quick_pixels import quick_pixels
from palaestra.envs.snapshot import is_drawing
from palaestra.frames.shrink import shrink, shrink_roughly

if TYPE_CHECKING:
    from palaestra.envs.make import AnyEnv
    from palaestra.frames.shrink import Picture

PICTURES = "rgb_array"


class Easel:
    """Of one environment"""

    def __init__(self, env: AnyEnv) -> None:
        self.env = env
        self._things: dict[str, Any] = {}  # that it draws with, by the attribute in which it looks for them
        self._writes_pixels = False  # rather than only reading them

    def draw(self) -> Picture:
        """[height, width, 3]"""
        prepare_rendering(PICTURES)
        attributes = vars(self.env.unwrapped)
        before = dict(attributes)
        attributes.update(self._things, render_mode=PICTURES)
        try:
            picture = self._render()
        finally:
            self._things = {
                name: value for name, value in attributes.items() if is_drawing(value) and before.get(name) is not value
            }
            attributes.clear()
            attributes.update(before)
        return as_picture(picture, self.env)

    def _render(self) -> Any:
        if not self._writes_pixels:
            try:
                with quick_pixels():
                    return self.env.render()
            except ValueError:
                self._writes_pixels = True
        return self.env.render()


def as_picture(drawn: Any, whose: object) -> Picture:
    if not (isinstance(drawn, np.ndarray) and drawn.ndim == 3 and drawn.shape[2] == 3 and drawn.size):
        raise RunFailed(f"{whose} gave {type(drawn).__name__} instead of a picture [height, width, 3].")
    return drawn.astype(np.uint8, copy=False)


def fitted(picture: Picture, wanted_side: int, largest_side: int) -> Picture:
    """About as large as viewers want it (0: as drawn), and never larger than a lane takes."""
    return shrink(shrink_roughly(picture, wanted_side or largest_side), largest_side)
