"""A script's own films (`RecordVideo`): made when it was asked to capture them, told to our side, and bearable to W&B.

CleanRL's scripts film their last evaluation whatever they were asked; here a film is made only when it is wanted.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium

from . import moviepy_stand_in
from .names import arguments_in, names_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .observer import Observer

SWITCH = "capture_video"  # an argument; a script that has none films as it likes


def install(observer: Observer) -> list[str]:
    """What was done, in words."""
    done = [f"RecordVideo films only where {SWITCH} is asked for"]
    has_moviepy = importlib.util.find_spec("moviepy") is not None
    if not has_moviepy:
        moviepy_stand_in.install(observer.say)
        done.append("MoviePy is not installed; films are made by Palaestra")
    wrappers: Any = gymnasium.wrappers
    told = observer.say if has_moviepy else None
    wrappers.RecordVideo = controlled(wrappers.RecordVideo, lambda: is_wanted(names_of(observer.script)), told)
    return done


def is_wanted(names: dict[str, Any]) -> bool:
    return bool(getattr(arguments_in(names), SWITCH, True))


def controlled(base: Any, wanted: Callable[[], bool], say: Callable[..., None] | None) -> Any:
    """`base` where films are wanted, else the environment as it is; `say` hears of films that are there."""

    class RecordVideo(base):  # type: ignore[misc]  # the class is only known now
        path = ""  # of the last film; W&B asks for it when an environment is closed

        def __new__(cls, env: Any = None, *_arguments: Any, **_options: Any) -> Any:
            return super().__new__(cls) if wanted() else env

        @property
        def enabled(self) -> bool:
            """W&B asks for it too, and uploads what it finds."""
            return Path(self.path).is_file()

        def stop_recording(self) -> None:
            name = getattr(self, "_video_name", None)
            super().stop_recording()
            self.path = str(Path(self.video_folder) / f"{name}.mp4") if name else ""
            if say is not None and self.enabled:
                say("film", "", self.path, 0.0)

    return RecordVideo
