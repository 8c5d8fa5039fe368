"""The server's end of a frame buffer. Nothing that it finds there can make it crash, wait, or show half a picture.

It reads by system calls and maps nothing: a file that is cut short under a mapping kills the process that looks.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .frame_buffer import FrameBufferFile
from .frame_header import FRAME_HEADER, PIXELS, FrameHeader, Numbers, unpack_frame_header
from .heartbeat import HEARTBEAT, Heartbeat, unpack_heartbeat
from .layout import CHECK, DEMAND_AT, HEADER_AT, HEARTBEAT_AT, SEQUENCE, SLOT_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from .demand import Demand

ATTEMPTS = 3  # to catch a slot between two frames


@dataclass(frozen=True)
class Frame:
    slot: int
    note: FrameHeader
    payload: bytes  # pixels row by row, or a state message

    @property
    def sequence(self) -> int:
        return self.note.sequence

    @property
    def numbers(self) -> Numbers:
        return self.note.numbers

    @property
    def is_image(self) -> bool:
        return self.note.kind == PIXELS


class FrameReader:
    def __init__(self, path: Path) -> None:
        """FrameBufferNotFound when there is no such frame buffer; InvalidFrameBuffer when it is none of ours."""
        self._file = FrameBufferFile(path)
        self.about = self._file.about
        self.dropped: Counter[str] = Counter()  # frames that were not believed, by what was wrong

    @property
    def slot_count(self) -> int:
        return self.about.slot_count

    @property
    def is_removed(self) -> bool:
        return self._file.is_removed

    def read(self, slot: int, newer_than: int = 0) -> Frame | None:
        """The newest frame of a slot; None when there is none, or none beyond `newer_than`, or none to be believed."""
        wrong = ""
        for _ in range(ATTEMPTS):
            entry = self._bytes(self.about.slot_at(slot), SLOT_BYTES)
            if len(entry) < SLOT_BYTES:
                wrong = "short"
                break
            sequence = SEQUENCE.unpack_from(entry)[0]
            if sequence == 0 or sequence == newer_than:
                return None
            found = self._frame(slot, entry, sequence)
            if isinstance(found, Frame):
                return found
            wrong = found
        self.dropped[wrong] += 1
        return None

    def heartbeat(self) -> Heartbeat | None:
        return unpack_heartbeat(self._bytes(HEARTBEAT_AT, HEARTBEAT.size + CHECK.size))

    def want(self, demand: Demand, until: float) -> None:
        """Say what viewers want until then, on the machine's monotonic clock."""
        os.pwrite(self._file.descriptor, demand.pack(until), DEMAND_AT)

    def close(self) -> None:
        self._file.close()

    def _frame(self, slot: int, entry: bytes, sequence: int) -> Frame | str:
        place = sequence & 1
        told = unpack_frame_header(entry[HEADER_AT[place] : HEADER_AT[place] + FRAME_HEADER.size], self.about.capacity)
        if isinstance(told, str):
            return told
        note, checksum = told
        if note.sequence != sequence:
            return "torn"
        payload = self._bytes(self.about.image_at(slot, place), note.size)
        return Frame(slot, note, payload) if note.fits(payload, checksum) else "torn"

    def _bytes(self, offset: int, size: int) -> bytes:
        """Fewer where the file ends before"""
        return os.pread(self._file.descriptor, size, offset)
