"""Records frames of an episode to a file; the parent process encodes the video, since MoviePy may be missing here."""

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

FRAME_HEADER = struct.Struct("<III")  # height, width, bytes of the compressed frame
COMPRESSION_LEVEL = 1  # enough: most of a difference is zeros


class FrameRecording:
    """A file of frames, each the compressed difference to the one before; `palaestra.apps.scripts.videos` reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream = path.open("wb")
        self._last: Any = None

    def add(self, frame: Any) -> None:
        """[height, width, 3]"""
        before = self._last if self._last is not None and self._last.shape == frame.shape else np.zeros_like(frame)
        packed = zlib.compress((frame ^ before).tobytes(), COMPRESSION_LEVEL)
        self._stream.write(FRAME_HEADER.pack(frame.shape[0], frame.shape[1], len(packed)))
        self._stream.write(packed)
        self._last = frame.copy()

    def close(self) -> None:
        self._stream.close()


def as_image(drawn: Any) -> Any:
    """The frame [height, width, 3], or None if `render` returned something else."""
    if isinstance(drawn, list):
        drawn = drawn[-1] if drawn else None
    fits = isinstance(drawn, np.ndarray) and drawn.ndim == 3 and drawn.shape[2] == 3 and drawn.size
    return np.ascontiguousarray(drawn.astype(np.uint8, copy=False)) if fits else None


SWITCH = "capture_video"  # argument of CleanRL's scripts; a script without it decides itself


def install_video_recording(observer: Observer) -> list[str]:
    """Makes RecordVideo follow `capture_video`; returns a description of every change."""
    done = [f"RecordVideo records only with {SWITCH}"]
    has_moviepy = importlib.util.find_spec("moviepy") is not None
    if not has_moviepy:
        install_moviepy_substitute(observer.send)
        done.append("MoviePy is not installed; videos are encoded by Palaestra")
    wrappers: Any = gymnasium.wrappers
    report = observer.send if has_moviepy else None
    wrappers.RecordVideo = record_video_if(
        wrappers.RecordVideo, lambda: is_wanted(names_in_scope(observer.script)), report
    )
    return done


def is_wanted(names: dict[str, Any]) -> bool:
    return bool(getattr(find_arguments(names), SWITCH, True))


def record_video_if(base: Any, wanted: Callable[[], bool], send: Callable[..., None] | None) -> Any:
    """A RecordVideo that records only if `wanted()`; `send` reports finished videos."""

    class RecordVideo(base):  # type: ignore[misc]  # the class is only known now
        path = ""  # of the last video; W&B reads it when an environment is closed

        def __new__(cls, env: Any = None, *_arguments: Any, **_options: Any) -> Any:
            return super().__new__(cls) if wanted() else env

        @property
        def enabled(self) -> bool:
            """Read by W&B, which uploads the file then."""
            return Path(self.path).is_file()

        def stop_recording(self) -> None:
            name = getattr(self, "_video_name", None)
            super().stop_recording()
            self.path = str(Path(self.video_folder) / f"{name}.mp4") if name else ""
            if send is not None and self.enabled:
                send("video", "", self.path, 0.0)

    return RecordVideo


MODULES = ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip")
FRAMES_SUFFIX = ".frames"


def install_moviepy_substitute(send: Callable[..., None]) -> None:
    class ImageSequenceClip:
        def __init__(self, sequence: Any, fps: float | None = None, **_options: Any) -> None:
            self._frames, self._rate = sequence, fps or 0.0

        def write_videofile(self, filename: Any, fps: float | None = None, **_options: Any) -> None:
            """Records the frames; the parent process encodes the video later."""
            recording = FrameRecording(Path(f"{filename}{FRAMES_SUFFIX}"))
            for one in self._frames:
                frame = as_image(one)
                if frame is not None:
                    recording.add(frame)
            recording.close()
            send("video", str(recording.path), str(filename), float(fps or self._rate))

        def close(self) -> None:
            """Nothing to close."""

    for name in MODULES:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    module: Any = sys.modules[MODULES[-1]]
    module.ImageSequenceClip = ImageSequenceClip
