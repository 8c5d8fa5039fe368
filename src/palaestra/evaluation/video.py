"""Pictures to MP4 (H.264), one at a time: memory does not grow with the length of an episode."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from palaestra.core.errors import RunFailed

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

DEFAULT_FRAME_RATE = 30.0  # pictures per second
PIXELS = "yuv420p"  # what browsers play; it halves the colour planes, so both sides must be even


def frame_rate_of(metadata: dict[str, Any]) -> float:
    """What an environment says of itself, when it is a usable number."""
    rate = metadata.get("render_fps")
    usable = isinstance(rate, int | float | np.number) and 0 < float(rate) <= 1000
    return float(rate) if usable and rate is not None else DEFAULT_FRAME_RATE


class VideoFile:
    """Appears under its name when it is complete; a failure leaves nothing behind."""

    def __init__(self, path: Path, frame_rate: float) -> None:
        self.path = path
        self.frame_count = 0
        self._draft = path.with_name(f".{path.name}.part")
        self._rate = Fraction(frame_rate).limit_denominator(1000)
        self._container = av.open(str(self._draft), "w", format="mp4", options={"movflags": "faststart"})
        self._stream: Any = None

    def __enter__(self) -> VideoFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._stream is not None:
                self._container.mux(self._stream.encode(None))
        finally:
            self._container.close()
            if kind is None and self.frame_count:
                self._draft.replace(self.path)
            else:
                self._draft.unlink(missing_ok=True)

    def add(self, pixels: NDArray[np.uint8]) -> None:
        """One picture [height, width, 3]; all of a video have one size."""
        even = _with_even_sides(pixels)
        height, width = even.shape[:2]
        if self._stream is None:
            self._stream = self._open_stream(width, height)
        if (self._stream.width, self._stream.height) != (width, height):
            raise RunFailed(
                f"The pictures change size from {self._stream.width}x{self._stream.height} to {width}x{height}."
            )
        frame = av.VideoFrame.from_ndarray(even, format="rgb24")
        frame.pts = self.frame_count
        frame.time_base = 1 / self._rate
        self._container.mux(self._stream.encode(frame))
        self.frame_count += 1

    def _open_stream(self, width: int, height: int) -> Any:
        stream = self._container.add_stream("libx264", rate=self._rate, options={"preset": "veryfast", "crf": "23"})
        stream.width, stream.height, stream.pix_fmt = width, height, PIXELS
        stream.thread_count = 1  # the other core belongs to whoever trains
        return stream


def _with_even_sides(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The last row or column twice, where there is an odd number of them."""
    height, width = pixels.shape[:2]
    padded = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(padded)
