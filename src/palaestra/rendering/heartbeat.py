"""What a worker says of itself in its frame buffer, several times a second: for the line under the pictures."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Literal

from .layout import checked, unchecked

REASON_BYTES = 256
HEARTBEAT = struct.Struct(f"<dQQQddI{REASON_BYTES}s")
Condition = Literal["open", "closed", "failed"]
CONDITIONS: tuple[Condition, ...] = ("open", "closed", "failed")


@dataclass(frozen=True)
class Heartbeat:
    at: float  # on the machine's monotonic clock
    env_steps: int  # of the run
    episodes: int  # ended in this process
    frames: int  # written so far
    seconds_spent: float  # on drawing and writing them
    seconds_watched: float  # while somebody wanted to see
    condition: Condition = "open"
    reason: str = ""  # why it failed

    @property
    def cost(self) -> float:
        """The share of its time that the worker gives to those who watch"""
        return self.seconds_spent / self.seconds_watched if self.seconds_watched > 0 else 0.0

    def pack(self) -> bytes:
        reason = self.reason.encode()[:REASON_BYTES]
        return checked(
            HEARTBEAT.pack(
                *(self.at, self.env_steps, self.episodes, self.frames, self.seconds_spent, self.seconds_watched),
                *(CONDITIONS.index(self.condition), reason),
            )
        )


def unpack_heartbeat(data: bytes) -> Heartbeat | None:
    """None when it was read while it was written, or was never written."""
    body = unchecked(data, HEARTBEAT.size)
    if body is None:
        return None
    at, env_steps, episodes, frames, spent, watched, condition, reason = HEARTBEAT.unpack(body)
    if condition >= len(CONDITIONS) or not all(map(math.isfinite, (at, spent, watched))):
        return None
    text = reason.rstrip(b"\x00").decode(errors="replace")
    return Heartbeat(at, env_steps, episodes, frames, spent, watched, CONDITIONS[condition], text)
