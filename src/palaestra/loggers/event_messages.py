"""The few messages of TensorBoard's event format that we need, in protocol-buffer wire format.

Written out by hand because importing tensorboard's own message types costs a quarter to three quarters of a second
at the start of every run, and building them a third of a logger's time. A test holds every one of them, byte for
byte, against tensorboard's own. A field is a key (number << 3 | kind) followed by its value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from struct import Struct, pack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

FIXED64, LENGTH, FIXED32, VARINT = 1, 2, 5, 0
STRING_TENSOR = 7  # DT_STRING
SESSION_START = 1
SCALAR_BYTES, MOMENT_BYTES = 4, 8


def version_event(at: float) -> bytes:
    """The first record of every file."""
    return _head(at, 0) + _bytes_field(3, b"brain.Event:2")


def session_start_event(at: float, step: int) -> bytes:
    """Tells a reader to forget the points from `step` on."""
    return _head(at, step) + _bytes_field(7, _key(1, VARINT) + _varint(SESSION_START))


def scalars_event(at: float, step: int, values: Mapping[str, float]) -> bytes:
    return _head(at, step) + _bytes_field(5, _summary(values))


@dataclass(frozen=True)
class Form:
    """What events of the same scalars have in common, and the places of the bytes in which they differ."""

    common: bytes
    moment: range
    step: range  # empty at step 0, which is not written
    scalars: tuple[range, ...]

    @property
    def places(self) -> list[int]:
        return [place for part in (self.moment, self.step, *self.scalars) for place in part]


@lru_cache(maxsize=256)
def form_of(tags: tuple[str, ...], step_bytes: int) -> Form:
    """Of events whose steps take as many bytes, see `step_bytes_of`."""
    step = 1 << 7 * (step_bytes - 1) if step_bytes else 0
    common = scalars_event(0.0, step, dict.fromkeys(tags, 0.0))
    scalars, end = [], len(common)
    for tag in reversed(tags):
        scalars.append(range(end - SCALAR_BYTES, end))
        end -= len(_scalar_prefix(tag)) + SCALAR_BYTES
    behind_moment = 1 + MOMENT_BYTES + 1  # keys are a byte each
    return Form(common, range(1, 1 + MOMENT_BYTES), range(behind_moment, behind_moment + step_bytes), (*scalars[::-1],))


def step_bytes_of(step: int) -> int:
    return (step.bit_length() + 6) // 7


def text_event(at: float, step: int, tag: str, text: str) -> bytes:
    """Markdown for TensorBoard's text page."""
    plugin = _bytes_field(1, b"text")
    tensor = _key(1, VARINT) + _varint(STRING_TENSOR) + _bytes_field(8, text.encode())
    value = _bytes_field(1, tag.encode()) + _bytes_field(8, tensor) + _bytes_field(9, _bytes_field(1, plugin))
    return _head(at, step) + _bytes_field(5, _bytes_field(1, value))


def _head(at: float, step: int) -> bytes:
    wall_time = _key(1, FIXED64) + pack("<d", at)
    return wall_time + _key(2, VARINT) + _varint(step) if step else wall_time


def _summary(values: Mapping[str, float]) -> bytes:
    """All scalars in one call: a run has a sample of seventeen hundreds of times a second."""
    layout, words = _layout(tuple(values))
    own = words.copy()
    own[1::2] = values.values()
    try:
        return layout.pack(*own)
    except OverflowError:
        return b"".join(_scalar_prefix(tag) + _float32(value) for tag, value in values.items())


@lru_cache(maxsize=256)
def _layout(tags: tuple[str, ...]) -> tuple[Struct, list[Any]]:
    """Of those tags side by side: what stands before each value, and the places of the values."""
    prefixes = [_scalar_prefix(tag) for tag in tags]
    words: list[Any] = [word for prefix in prefixes for word in (prefix, 0.0)]
    return Struct("<" + "".join(f"{len(prefix)}sf" for prefix in prefixes)), words


@cache
def _scalar_prefix(tag: str) -> bytes:
    """Everything of a `Summary.Value` but its four bytes of float; a run has few tags and writes them often."""
    content = _bytes_field(1, tag.encode()) + _key(2, FIXED32)
    return _key(1, LENGTH) + _varint(len(content) + 4) + content


def _float32(value: float) -> bytes:
    """Beyond what 32 bits can hold there is only infinity."""
    try:
        return pack("<f", value)
    except OverflowError:
        return pack("<f", float("inf") if value > 0 else float("-inf"))


def _bytes_field(number: int, content: bytes) -> bytes:
    return _key(number, LENGTH) + _varint(len(content)) + content


def _key(number: int, kind: int) -> bytes:
    return bytes((number << 3 | kind,))


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
