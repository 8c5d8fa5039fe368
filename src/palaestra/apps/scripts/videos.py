"""Films of what a script's networks play: its process puts pictures aside, we make an MP4 of them."""

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

    Picture = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]

PIECE = struct.Struct("<III")  # as `launcher/videos.py` writes it: height, width, bytes that follow
MAX_SIDE = 8192


def read_frames(path: Path) -> Iterator[Picture]:
    """In the order in which they were put aside."""
    last: Picture | None = None
    with path.open("rb") as stream:
        while head := stream.read(PIECE.size):
            try:
                height, width, size = PIECE.unpack(head)
                change = np.frombuffer(zlib.decompress(stream.read(size)), np.uint8)
                if max(height, width) > MAX_SIDE:
                    raise ValueError(f"{height} by {width} pixels")
                change = change.reshape(height, width, 3)
            except (struct.error, zlib.error, ValueError) as error:
                raise DamagedFile(f"{path.name} holds no pictures: {error}.") from error
            last = change if last is None or last.shape != change.shape else last ^ change
            yield last


def make_video(pictures: Path, film: Path, frame_rate: float) -> None:
    """The pictures are gone then; a film without any does not come to be."""
    film.parent.mkdir(exist_ok=True)
    with VideoFile(film, frame_rate) as video:
        for picture in read_frames(pictures):
            video.add(picture)
    pictures.unlink()


def keep_video(pictures: str, film: Path, frame_rate: float, videos: Path) -> Path:
    """A film of the script's own, made of `pictures` unless it is there; it stays where the script wants it.

    Scripts put them into folders of their own; here it is also found among the films of the run.
    """
    if pictures:
        make_video(Path(pictures), film, frame_rate or DEFAULT_FRAME_RATE)
    kept = videos / f"{film.parent.name}-{film.name}"
    kept.unlink(missing_ok=True)
    os.link(film, kept)
    return kept
