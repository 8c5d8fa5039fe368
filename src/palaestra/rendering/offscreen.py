"""Renders environments that were made without a render mode, and leaves no trace in them.

Training environments are made without a render mode, because some do more or other work with one. `OffscreenRenderer`
sets it for one image only, and keeps what rendering left in the attributes (windows, clocks, fonts) until the next
image: stepping, capturing and closing work as if nothing had been rendered.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from ctypes.util import find_library
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .images import Pixels

RGB_ARRAY = "rgb_array"
RENDER_LIBRARIES = ("pygame", "pyglet", "glfw", "OpenGL", "matplotlib", "moderngl")
RENDER_CLASSES = ("gymnasium.envs.mujoco.mujoco_rendering.MujocoRenderer",)


class CannotRender(Exception):
    """The environment returns no image; the text says why."""


class OffscreenRenderer:
    """Renders one environment."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self._handles: dict[str, Any] = {}  # windows, fonts and the like, by attribute
        self._writes_pixels = False  # the environment writes to pygame's pixel arrays

    def render(self) -> Pixels:
        """Returns an image [height, width, 3]."""
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
    """The result of `render` as uint8 [height, width, 3]."""
    image = rendered[-1] if isinstance(rendered, list) and rendered else rendered
    if not (isinstance(image, np.ndarray) and image.ndim == 3 and image.shape[2] == 3 and image.size):
        raise CannotRender(f"{env} returned {type(rendered).__name__} instead of an image [height, width, 3]")
    return np.ascontiguousarray(image.astype(np.uint8, copy=False))


def is_render_handle(value: Any) -> bool:
    """Whether the value is a window, a clock or a font: used for rendering, and no part of the state."""
    if type(value) in (list, tuple) and value:
        return all(is_render_handle(part) for part in value)
    if isinstance(value, (type, ModuleType)):
        return False
    kind = type(value)
    return (
        kind.__module__.partition(".")[0] in RENDER_LIBRARIES
        or f"{kind.__module__}.{kind.__qualname__}" in RENDER_CLASSES
    )


def prepare_rendering(render_mode: str | None) -> None:
    """Sets the variables that SDL and MuJoCo read, before the first frame. The user's own values are kept."""
    if render_mode is None:
        return
    # pygame prints to stdout, which is for --json; SDL replaces the handlers of SIGINT and SIGTERM.
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
    if render_mode == "human" or _has_screen():
        return
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if _has_egl():
        os.environ.setdefault("MUJOCO_GL", "egl")


def _has_screen() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@cache  # find_library starts a compiler or linker process
def _has_egl() -> bool:
    return find_library("EGL") is not None


TRUE_COLOUR_BITS = (24, 32)  # per pixel; other surfaces hold indices of a colour table


@contextmanager
def fast_pixels() -> Iterator[None]:
    """Makes `surfarray.pixels3d` return a copy in row order.

    Environments read a surface column by column, and NumPy transposes that pixel by pixel, which takes twice as long as
    rendering CartPole. The copy has the same shape and values but is read-only: writing to it raises ValueError.
    """
    surfarray: Any = sys.modules.get("pygame.surfarray")
    if surfarray is None:
        yield
        return
    usual = surfarray.pixels3d

    def copied(surface: Any) -> Pixels:
        return _copied(surface) if surface.get_bitsize() in TRUE_COLOUR_BITS else usual(surface)

    surfarray.pixels3d = copied
    try:
        yield
    finally:
        surfarray.pixels3d = usual


def _copied(surface: Any) -> Pixels:
    """[width, height, 3]"""
    width, height = surface.get_size()
    image: Any = sys.modules["pygame.image"]
    data = image.tobytes(surface, "RGB") if hasattr(image, "tobytes") else image.tostring(surface, "RGB")
    pixels = np.frombuffer(data, np.uint8)
    return pixels.reshape(height, width, 3).transpose(1, 0, 2)
