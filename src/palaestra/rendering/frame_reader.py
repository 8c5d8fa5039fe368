"""Reads a frame buffer. Whatever the file contains, reading never crashes, waits, or returns a torn frame.

It uses system calls and no mapping: a mapped file that is truncated kills the process that reads it.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .frame_buffer import FrameBufferFile
from .frame_format import (
    CHECK,
    DEMAND_AT,
    FRAME_HEADER,
    HEADER_AT,
    HEARTBEAT,
    HEARTBEAT_AT,
    PIXELS,
    SEQUENCE,
    SLOT_BYTES,
    FrameHeader,
    Heartbeat,
    Numbers,
    unpack_frame_header,
    unpack_heartbeat,
)

if TYPE_CHECKING:
    from pathlib import Path

    from .frame_format import Demand

ATTEMPTS = 3  # to read a slot between two writes


@dataclass(frozen=True)
class Frame:
    slot: int
    header: FrameHeader
    payload: bytes  # pixels row by row, or a state message

    @property
    def sequence(self) -> int:
        return self.header.sequence

    @property
    def numbers(self) -> Numbers:
        return self.header.numbers

    @property
    def is_image(self) -> bool:
        return self.header.kind == PIXELS


class FrameReader:
    def __init__(self, path: Path) -> None:
        """Raises FrameBufferNotFound or InvalidFrameBuffer."""
        self._file = FrameBufferFile(path)
        self.about = self._file.about
        self.dropped: Counter[str] = Counter()  # invalid frames, by reason

    @property
    def slot_count(self) -> int:
        return self.about.slot_count

    @property
    def is_removed(self) -> bool:
        return self._file.is_removed

    def read(self, slot: int, newer_than: int = 0) -> Frame | None:
        """The newest frame of a slot; None if there is no valid one after the sequence number `newer_than`."""
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

    def request(self, demand: Demand, until: float) -> None:
        """Tells the writer what viewers want until a time on the machine's monotonic clock."""
        os.pwrite(self._file.descriptor, demand.pack(until), DEMAND_AT)

    def close(self) -> None:
        self._file.close()

    def _frame(self, slot: int, entry: bytes, sequence: int) -> Frame | str:
        index = sequence & 1
        unpacked = unpack_frame_header(
            entry[HEADER_AT[index] : HEADER_AT[index] + FRAME_HEADER.size], self.about.capacity
        )
        if isinstance(unpacked, str):
            return unpacked
        header, checksum = unpacked
        if header.sequence != sequence:
            return "torn"
        payload = self._bytes(self.about.image_at(slot, index), header.size)
        return Frame(slot, header, payload) if header.fits(payload, checksum) else "torn"

    def _bytes(self, offset: int, size: int) -> bytes:
        """Fewer than `size` where the file ends."""
        return os.pread(self._file.descriptor, size, offset)
