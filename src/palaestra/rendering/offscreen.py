"""Renders an environment that was made without a render mode, and leaves no trace in it.

Environments that train are made without a render mode, because some do more work, or other work, when they have one.
`OffscreenRenderer` sets it for one image only. What rendering left in the attributes (windows, clocks, fonts) is kept
here until the next image: stepping, capturing and closing find everything as if nobody had watched.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .headless import prepare_rendering
from .pygame_pixels import fast_pixels

if TYPE_CHECKING:
    from .shrink import Pixels

RGB_ARRAY = "rgb_array"
RENDER_LIBRARIES = ("pygame", "pyglet", "glfw", "OpenGL", "matplotlib", "moderngl")
RENDER_CLASSES = ("gymnasium.envs.mujoco.mujoco_rendering.MujocoRenderer",)


class CannotRender(Exception):
    """The environment gives no image; the text says why."""


class OffscreenRenderer:
    """Of one environment."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self._handles: dict[str, Any] = {}  # windows, fonts and the like, by the attribute in which it looks for them
        self._writes_pixels = False  # through pygame's pixel arrays, rather than only reading them

    def render(self) -> Pixels:
        """[height, width, 3]"""
        prepare_rendering(RGB_ARRAY)
        base = self.env.unwrapped
        mode = getattr(base, "render_mode", None)
        if mode == RGB_ARRAY:
            # Not through the wrappers: one of them may collect frames for the script and would lose this one.
            return as_pixels(self._render(base), self.env)
        if mode is not None:
            raise CannotRender(f"it renders by itself, as '{mode}'")
        return as_pixels(self._render_with_mode(base), self.env)

    def _render_with_mode(self, base: Any) -> Any:
        attributes = vars(base)
        before = dict(attributes)
        attributes.update(self._handles, render_mode=RGB_ARRAY)
        try:
            return self._render(self.env)
        finally:
            self._handles = {
                name: value
                for name, value in attributes.items()
                if is_render_handle(value) and before.get(name) is not value
            }
            attributes.clear()
            attributes.update(before)

    def _render(self, env: Any) -> Any:
        if not self._writes_pixels:
            try:
                with fast_pixels():
                    return env.render()
            except ValueError:
                self._writes_pixels = True
        return env.render()


def as_pixels(rendered: Any, env: object) -> Pixels:
    """What `render` returned, as [height, width, 3] bytes."""
    image = rendered[-1] if isinstance(rendered, list) and rendered else rendered
    if not (isinstance(image, np.ndarray) and image.ndim == 3 and image.shape[2] == 3 and image.size):
        raise CannotRender(f"{env} returned {type(rendered).__name__} instead of an image [height, width, 3]")
    return np.ascontiguousarray(image.astype(np.uint8, copy=False))


def is_render_handle(value: Any) -> bool:
    """A window, a clock, a font: something to render with, and no part of an environment's state."""
    if type(value) in (list, tuple) and value:
        return all(is_render_handle(part) for part in value)
    if isinstance(value, (type, ModuleType)):
        return False
    kind = type(value)
    return (
        kind.__module__.partition(".")[0] in RENDER_LIBRARIES
        or f"{kind.__module__}.{kind.__qualname__}" in RENDER_CLASSES
    )
