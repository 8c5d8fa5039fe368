"""Rendering without a screen. What the user set is never overridden."""

from __future__ import annotations

import os
from ctypes.util import find_library
from functools import cache


def prepare_rendering(render_mode: str | None) -> None:
    """Set what SDL and MuJoCo read from the process environment; must come before the first frame is drawn."""
    if render_mode is None:
        return
    # pygame greets on stdout, which belongs to --json; SDL replaces the handlers of SIGINT and SIGTERM.
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


@cache  # looking a library up starts a compiler or linker process
def _has_egl() -> bool:
    return find_library("EGL") is not None
