"""Drawing an environment that was not made to be drawn, without leaving a trace in it.

A render mode is lent to it for one picture; what drawing put into its attributes is kept here until the next.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from .film import as_picture
from .quick_pixels import quick_pixels

PICTURES = "rgb_array"
DRAWS = {"pygame", "pyglet", "glfw", "OpenGL", "matplotlib", "moderngl"}
HAS_PILLOW = importlib.util.find_spec("PIL") is not None


class Undrawable(Exception):
    """The text says why."""


class Easel:
    """Of one environment, as `gymnasium.make` gave it."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self._things: dict[str, Any] = {}  # that it draws with, by the attribute in which it looks for them
        self._writes_pixels = False  # rather than only reading them

    def draw(self) -> Any:
        """[height, width, 3]"""
        base = self.env.unwrapped
        mode = getattr(base, "render_mode", None)
        if mode not in (None, PICTURES):
            raise Undrawable(f"the script draws it itself, as '{mode}'")
        # Not through the wrappers: one of them may collect pictures for the script, which would be taken from it.
        drawn = self._render(base) if mode == PICTURES else self._draw_on_loan(base)
        picture = as_picture(drawn)
        if picture is None:
            raise Undrawable(f"it gave {type(drawn).__name__} instead of a picture")
        return picture

    def _draw_on_loan(self, base: Any) -> Any:
        attributes = vars(base)
        before = dict(attributes)
        attributes.update(self._things, render_mode=PICTURES)
        try:
            return self._render(self.env)
        finally:
            self._things = {
                name: value for name, value in attributes.items() if draws(value) and before.get(name) is not value
            }
            attributes.clear()
            attributes.update(before)

    def _render(self, env: Any) -> Any:
        if not self._writes_pixels:
            try:
                with quick_pixels():
                    return env.render()
            except ValueError:
                self._writes_pixels = True
        return env.render()


def draws(value: Any) -> bool:
    """A window, a clock, a font"""
    return not isinstance(value, type) and type(value).__module__.partition(".")[0] in DRAWS


def fitted(picture: Any, side: int, largest: int) -> Any:
    """As somebody wants it (0: as it was drawn), and never larger than there is room for."""
    return shrink(picture, min(side or largest, largest), largest)


def shrink(picture: Any, side: int, largest: int) -> Any:
    """About `side` pixels, by making one of a whole number of them; never more than `largest`."""
    longest = max(picture.shape[:2])
    times = max(round(longest / max(1, side)), -(-longest // largest), 1)
    if times < 2:
        return picture
    if HAS_PILLOW:
        image = importlib.import_module("PIL.Image")
        return np.asarray(image.fromarray(picture).reduce(times))
    return np.ascontiguousarray(picture[::times, ::times])
