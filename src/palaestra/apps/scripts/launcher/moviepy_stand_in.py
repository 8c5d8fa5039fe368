"""For interpreters without MoviePy, which Gymnasium films with: pictures are put aside, and our side makes the film."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .film import Film, as_picture

if TYPE_CHECKING:
    from collections.abc import Callable

MODULES = ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip")
ASIDE = ".pictures"


def install(say: Callable[..., None]) -> None:
    class ImageSequenceClip:
        def __init__(self, sequence: Any, fps: float | None = None, **_options: Any) -> None:
            self._pictures, self._rate = sequence, fps or 0.0

        def write_videofile(self, filename: Any, fps: float | None = None, **_options: Any) -> None:
            """The film is there a little later."""
            film = Film(Path(f"{filename}{ASIDE}"))
            for one in self._pictures:
                picture = as_picture(one)
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
