"""Encodes frames that a script's process recorded as MP4 videos."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.errors import DamagedFile
from palaestra.evaluation.video import DEFAULT_FRAME_RATE, VideoFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    Frame = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]

FRAME_HEADER = struct.Struct("<III")  # as `launcher/videos.py` writes it: height, width, bytes that follow
MAX_SIDE = 8192


def read_frames(path: Path) -> Iterator[Frame]:
    """Frames of a file that `launcher/videos.py` wrote."""
    last: Frame | None = None
    with path.open("rb") as stream:
        while header := stream.read(FRAME_HEADER.size):
            try:
                height, width, size = FRAME_HEADER.unpack(header)
                change = np.frombuffer(zlib.decompress(stream.read(size)), np.uint8)
                if max(height, width) > MAX_SIDE:
                    raise ValueError(f"{height} by {width} pixels")
                change = change.reshape(height, width, 3)
            except (struct.error, zlib.error, ValueError) as error:
                raise DamagedFile(f"{path.name} contains invalid frames: {error}.") from error
            last = change if last is None or last.shape != change.shape else last ^ change
            yield last


def make_video(frames: Path, path: Path, frame_rate: float) -> None:
    """Encodes recorded frames and deletes them; without frames there is no video."""
    path.parent.mkdir(exist_ok=True)
    with VideoFile(path, frame_rate) as video:
        for frame in read_frames(frames):
            video.add(frame)
    frames.unlink()


def link_video(frames: str, path: Path, frame_rate: float, videos: Path) -> Path:
    """Adds a video of the script to the run's videos, as a hard link; encodes it first if `frames` is given."""
    if frames:
        make_video(Path(frames), path, frame_rate or DEFAULT_FRAME_RATE)
    linked = videos / f"{path.parent.name}-{path.name}"
    linked.unlink(missing_ok=True)
    os.link(path, linked)
    return linked
