"""Pictures of an episode put aside for our side, which can make a film of them: here there may be nothing that can."""

from __future__ import annotations

import importlib.util
import struct
import sys
import types
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from .observer import find_arguments, names_in_scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from .observer import Observer

PIECE = struct.Struct("<III")  # height, width, bytes that follow
LEVEL = 1  # of packing: most of a difference is zeros


class FrameRecording:
    """Each piece is what differs from the picture before, packed; `palaestra.apps.scripts.videos` reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream = path.open("wb")
        self._last: Any = None

    def add(self, picture: Any) -> None:
        """[height, width, 3]"""
        before = self._last if self._last is not None and self._last.shape == picture.shape else np.zeros_like(picture)
        packed = zlib.compress((picture ^ before).tobytes(), LEVEL)
        self._stream.write(PIECE.pack(picture.shape[0], picture.shape[1], len(packed)))
        self._stream.write(packed)
        self._last = picture.copy()

    def close(self) -> None:
        self._stream.close()


def as_image(drawn: Any) -> Any:
    """[height, width, 3] bytes, or None for anything else that `render` may give."""
    if isinstance(drawn, list):
        drawn = drawn[-1] if drawn else None
    fits = isinstance(drawn, np.ndarray) and drawn.ndim == 3 and drawn.shape[2] == 3 and drawn.size
    return np.ascontiguousarray(drawn.astype(np.uint8, copy=False)) if fits else None


SWITCH = "capture_video"  # an argument; a script that has none films as it likes


def install_video_recording(observer: Observer) -> list[str]:
    """What was done, in words."""
    done = [f"RecordVideo films only where {SWITCH} is asked for"]
    has_moviepy = importlib.util.find_spec("moviepy") is not None
    if not has_moviepy:
        install_moviepy_substitute(observer.say)
        done.append("MoviePy is not installed; films are made by Palaestra")
    wrappers: Any = gymnasium.wrappers
    report = observer.say if has_moviepy else None
    wrappers.RecordVideo = controlled(wrappers.RecordVideo, lambda: is_wanted(names_in_scope(observer.script)), report)
    return done


def is_wanted(names: dict[str, Any]) -> bool:
    return bool(getattr(find_arguments(names), SWITCH, True))


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


MODULES = ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip")
ASIDE = ".pictures"


def install_moviepy_substitute(say: Callable[..., None]) -> None:
    class ImageSequenceClip:
        def __init__(self, sequence: Any, fps: float | None = None, **_options: Any) -> None:
            self._pictures, self._rate = sequence, fps or 0.0

        def write_videofile(self, filename: Any, fps: float | None = None, **_options: Any) -> None:
            """The film is there a little later."""
            film = FrameRecording(Path(f"{filename}{ASIDE}"))
            for one in self._pictures:
                picture = as_image(one)
                if picture is not None:
                    film.add(picture)
            film.close()
            say("film", str(film.path), str(filename), float(fps or self._rate))

        def close(self) -> None:
            """Nothing is held open."""

    for name in MODULES:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    module: Any = sys.modules[MODULES[-1]]
    module.ImageSequenceClip = ImageSequenceClip
