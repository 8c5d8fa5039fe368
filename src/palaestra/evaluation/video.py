"""Videos: frames to MP4 (H.264), several frames as one mosaic, and a file that holds frames for later.

Frames are written one at a time, so memory does not grow with the length of an episode.
"""

from __future__ import annotations

import math
import tempfile
import zlib
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from palaestra.core.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

    Frame = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]
    from collections.abc import Iterator

DEFAULT_FRAME_RATE = 30.0  # frames per second
PIXELS = "yuv420p"  # what browsers play; it halves the colour planes, so both sides must be even


def frame_rate_of(metadata: dict[str, Any]) -> float:
    """The `render_fps` of an environment, or the default when that is no usable number."""
    rate = metadata.get("render_fps")
    usable = isinstance(rate, int | float | np.number) and 0 < float(rate) <= 1000
    return float(rate) if usable and rate is not None else DEFAULT_FRAME_RATE


class VideoFile:
    """A file that appears under its name when it is complete; a failure leaves nothing behind."""

    def __init__(self, path: Path, frame_rate: float) -> None:
        self.path = path
        self.frame_count = 0
        self._unfinished = path.with_name(f".{path.name}.part")
        self._rate = Fraction(frame_rate).limit_denominator(1000)
        self._container = av.open(str(self._unfinished), "w", format="mp4", options={"movflags": "faststart"})
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
                self._unfinished.replace(self.path)
            else:
                self._unfinished.unlink(missing_ok=True)

    def add(self, pixels: NDArray[np.uint8]) -> None:
        """Adds one frame [height, width, 3]; all frames of a video have one size."""
        even = _with_even_sides(pixels)
        height, width = even.shape[:2]
        if self._stream is None:
            self._stream = self._open_stream(width, height)
        if (self._stream.width, self._stream.height) != (width, height):
            raise RunFailed(
                f"The size of the frames changes from {self._stream.width}x{self._stream.height} to {width}x{height}."
            )
        frame = av.VideoFrame.from_ndarray(even, format="rgb24")
        frame.pts = self.frame_count
        frame.time_base = 1 / self._rate
        self._container.mux(self._stream.encode(frame))
        self.frame_count += 1

    def _open_stream(self, width: int, height: int) -> Any:
        stream = self._container.add_stream("libx264", rate=self._rate, options={"preset": "veryfast", "crf": "23"})
        stream.width, stream.height, stream.pix_fmt = width, height, PIXELS
        stream.thread_count = 1  # leaves the other cores to a training
        return stream


def _with_even_sides(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Repeats the last row or column where their number is odd."""
    height, width = pixels.shape[:2]
    padded = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(padded)


LARGEST = (1080, 1920)  # height and width of a mosaic in pixels; tiles are shrunk to fit
BACKGROUND = 24  # grey level between frames
GAP = 4  # pixels between tiles
DIMMED = 0.45


@dataclass(frozen=True)
class Mosaic:
    rows: int
    columns: int
    height: int  # of a tile
    width: int

    def compose(self, tiles: Sequence[Frame]) -> Frame:
        """Tiles [height, width, 3] as one frame, row by row from the upper left."""
        whole = self._empty()
        for index, tile in enumerate(tiles):
            row, column = divmod(index, self.columns)
            top, left = row * (self.height + GAP), column * (self.width + GAP)
            whole[top : top + self.height, left : left + self.width] = tile
        return whole

    def fit(self, frame: Frame) -> Frame:
        """The frame scaled to fit a tile, with its proportions kept, centred."""
        scaled = _scaled(frame, min(self.height / frame.shape[0], self.width / frame.shape[1]))
        height, width = scaled.shape[:2]
        if (height, width) == (self.height, self.width):
            return scaled
        tile = np.full((self.height, self.width, 3), BACKGROUND, np.uint8)
        top, left = (self.height - height) // 2, (self.width - width) // 2
        tile[top : top + height, left : left + width] = scaled
        return tile

    def _empty(self) -> Frame:
        height = self.rows * self.height + (self.rows - 1) * GAP
        width = self.columns * self.width + (self.columns - 1) * GAP
        return np.full((height, width, 3), BACKGROUND, np.uint8)


def mosaic_for(count: int, frame: Frame) -> Mosaic:
    """About as many rows as columns; tiles have the size of `frame`, or less where the mosaic would be too large."""
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    height, width = frame.shape[:2]
    space = ((LARGEST[0] - (rows - 1) * GAP) / rows, (LARGEST[1] - (columns - 1) * GAP) / columns)
    scale = min(1.0, space[0] / height, space[1] / width)
    return Mosaic(rows, columns, max(1, int(height * scale)), max(1, int(width * scale)))


def dim(frame: Frame) -> Frame:
    """A darker frame, for an episode that has ended."""
    darker: Frame = (frame * np.float32(DIMMED)).astype(np.uint8)
    return darker


def _scaled(frame: Frame, scale: float) -> Frame:
    """Enlarges by whole factors only, so that pixels stay square; shrinks by averaging."""
    if scale >= 1:
        times = int(scale)
        return frame if times == 1 else frame.repeat(times, axis=0).repeat(times, axis=1)
    height, width = (max(1, int(side * scale + 1e-9)) for side in frame.shape[:2])
    down, across = _averages(frame.shape[0], height), _averages(frame.shape[1], width)
    rows = np.tensordot(down, frame.astype(np.float32), axes=(1, 0))  # [height, old width, 3]
    shrunk = np.tensordot(rows, across, axes=(1, 1)).transpose(0, 2, 1)  # [height, width, 3]
    return np.ascontiguousarray(np.rint(shrunk).astype(np.uint8))


@lru_cache(maxsize=16)
def _averages(before: int, after: int) -> NDArray[np.float32]:
    """[after, before]: the share of each old pixel in each new one; rows sum to 1."""
    edges = np.arange(after + 1) * (before / after)
    starts = np.arange(before)
    overlap = np.minimum(edges[1:, None], starts + 1) - np.maximum(edges[:-1, None], starts)
    shares = np.clip(overlap, 0, None)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True), np.float32)


LEVEL = 1  # of compression: most of a difference is zeros
SIZE_BYTES = 4


class FrameSpool:
    """Frames of one size in a temporary file, written once and read once, without loss.

    The difference from the frame before is compressed. The file has no name, so it is gone with its process.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="palaestra-spool-")  # noqa: SIM115  closed by `close`
        self._last: Frame | None = None
        self.count = 0

    def add(self, frame: Frame) -> None:
        before = np.zeros_like(frame) if self._last is None else self._last
        compressed = zlib.compress((frame ^ before).tobytes(), LEVEL)
        self._file.write(len(compressed).to_bytes(SIZE_BYTES, "big"))
        self._file.write(compressed)
        self._last = frame.copy()
        self.count += 1

    def frames(self) -> Iterator[Frame]:
        """The frames in the order in which they were added."""
        if self._last is None:
            return
        self._file.seek(0)
        frame = np.zeros_like(self._last)
        for _ in range(self.count):
            size = int.from_bytes(self._file.read(SIZE_BYTES), "big")
            difference = np.frombuffer(zlib.decompress(self._file.read(size)), np.uint8)
            frame = frame ^ difference.reshape(frame.shape)
            yield frame

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> FrameSpool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
