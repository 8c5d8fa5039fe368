"""Rows of a replay buffer as bytes, for files and for other processes, and back.

A block is a header (JSON: the first row's number; group, name, dtype and shape of every array) and the arrays' bytes.
When a block is read, the header must name exactly the arrays that this buffer has, and the bytes must be there: nothing
in a header decides what is allocated.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms.buffers.frame_storage import EMPTY
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import BinaryIO

    from numpy.typing import NDArray

    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer

    Key = tuple[str, str]  # group and name of an array
    ArraysByKey = dict[Key, NDArray[Any]]

PREFIX = struct.Struct("<8sI")  # of a block: its mark, and the length of its header in bytes
MARK = b"PALROWS1"
MAX_HEADER_BYTES = 64 << 10
MAX_PAYLOAD_BYTES = 1 << 40
BLOCK_BYTES = 32 << 20  # about the most in one block, if a row is not larger
DTYPES = frozenset({"<f4", "<f8", "<i8", "<i4", "|u1"})
ROWS = "rows"  # the group of what every row has
PLACES = "places"  # in the other groups: [count, 2] row of the block and environment of each value


@dataclass(frozen=True)
class ArrayHeader:
    group: str
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{np.dtype(self.dtype).name} {list(self.shape[1:])}"


@dataclass(frozen=True)
class BlockHeader:
    first_row: int  # numbered over the whole run
    row_count: int
    arrays: tuple[ArrayHeader, ...]

    @property
    def end_row(self) -> int:
        return self.first_row + self.row_count

    @property
    def payload_bytes(self) -> int:
        return sum(array.bytes for array in self.arrays)


def export_rows(
    buffer: ReplayBuffer, first_row: int, most_rows: int | None = None
) -> Iterator[tuple[int, list[memoryview]]]:
    """The complete rows from `first_row` on, block by block: the row after its last, and its bytes.

    These are views, which hold until the rows are overwritten. `most_rows`: in one block
    """
    most = max(1, min(BLOCK_BYTES // row_bytes(buffer), most_rows or buffer.rows))
    first = max(first_row, buffer.oldest_row)
    while first < buffer.total_rows:
        count = min(most, buffer.total_rows - first, buffer.rows - first % buffer.rows)  # not across the ring's end
        arrays = _arrays_of(buffer, first, count)
        header = BlockHeader(first, count, _describe(arrays))
        first += count
        yield first, [memoryview(encode_header(header)), *map(_view, arrays.values())]


def row_bytes(buffer: ReplayBuffer) -> int:
    """Of one row, without what only some rows have."""
    return sum(array[0].nbytes for array in _row_arrays(buffer).values())


def read_blocks(buffer: ReplayBuffer, stream: BinaryIO, size: int, source: str) -> Iterator[tuple[BlockHeader, bytes]]:
    """The blocks in the next `size` bytes, one by one; `DamagedFile` if they are none of this buffer's."""
    left = size
    while left:
        header, header_bytes = _read_header(stream, left, source)
        left -= header_bytes + header.payload_bytes
        if left < 0:
            raise DamagedFile(f"{source} ends in the middle of its rows.")
        _require_own(buffer, header, source)
        payload = stream.read(header.payload_bytes)
        if len(payload) != header.payload_bytes:
            raise DamagedFile(f"{source} ends in the middle of its rows.")
        yield header, payload


def load_block(buffer: ReplayBuffer, header: BlockHeader, payload: bytes) -> None:
    """Into the buffer, which `restore` has told its counters. Rows that it no longer needs are passed over."""
    arrays: ArraysByKey = {}
    start = 0
    for one in header.arrays:
        array = np.frombuffer(payload, one.dtype, prod(one.shape), start).reshape(one.shape)
        arrays[one.group, one.name] = array
        start += array.nbytes
    skipped = max(0, buffer.oldest_row - header.first_row)
    taken = slice(skipped, max(skipped, buffer.total_rows - header.first_row))
    numbers = np.arange(header.first_row, header.end_row)[taken] % buffer.rows
    buffer.release(numbers)
    for name, array in _row_arrays(buffer).items():
        array[numbers] = arrays[ROWS, name][taken]
    for some in _stored_apart(buffer):
        _load_apart(buffer, some, arrays, header, taken)


def copy_rows(source: ReplayBuffer, target: ReplayBuffer) -> None:
    """All rows, into a buffer of the same kind whose counters `restore` has set already."""
    for _, views in export_rows(source, 0):
        header = _decode(bytes(views[0])[PREFIX.size :], "a block")
        load_block(target, header, b"".join(views[1:]))
    target.finish_loading()


def _row_arrays(buffer: ReplayBuffer) -> dict[str, NDArray[Any]]:
    """What every row has, each [rows, B, …]."""
    parts = {f"observation/{name}": block for name, block in buffer.blocks.items()}
    for name, stack in buffer.stacks.items():
        parts |= {f"frames/{name}": stack.frames, f"ages/{name}": stack.ages}
    return {"actions": buffer.actions, "rewards": buffer.rewards, "ends": buffer.ends, **parts}


@dataclass(frozen=True)
class _StoredApart:
    """What only some rows have."""

    group: str
    slots: NDArray[np.int32]  # [rows, B]
    values: Mapping[str, NDArray[Any]]  # by part, each [slots, …]
    put: Callable[[int, int, Mapping[str, NDArray[Any]]], None]  # index of the row, environment, values by part


def _stored_apart(buffer: ReplayBuffer) -> list[_StoredApart]:
    found = [_StoredApart("finals", buffer.final_slots, buffer.finals, buffer.keep_final)]
    for name, stack in buffer.stacks.items():
        found.append(_StoredApart(f"whole/{name}", stack.whole.slots, {"": stack.whole.arrays}, stack.put_whole))
    return found


def _arrays_of(buffer: ReplayBuffer, first_row: int, count: int) -> ArraysByKey:
    rows = slice(first_row % buffer.rows, first_row % buffer.rows + count)
    arrays: ArraysByKey = {(ROWS, name): array[rows] for name, array in _row_arrays(buffer).items()}
    for some in _stored_apart(buffer):
        places = np.argwhere(some.slots[rows] != EMPTY).astype(np.int32)
        slots = some.slots[rows][places[:, 0], places[:, 1]]
        arrays[some.group, PLACES] = places
        arrays |= {(some.group, f"value/{name}"): values[slots] for name, values in some.values.items()}
    return arrays


def _load_apart(
    buffer: ReplayBuffer, some: _StoredApart, arrays: ArraysByKey, header: BlockHeader, taken: slice
) -> None:
    places = arrays[some.group, PLACES]
    if places.size and (places.min() < 0 or (places >= (header.row_count, buffer.env_count)).any()):
        raise DamagedFile(f"The rows from {header.first_row} on name rows or environments that there are not.")
    values = {name: arrays[some.group, f"value/{name}"] for name in some.values}
    for number, (row, env) in enumerate(places.tolist()):
        if taken.start <= row < taken.stop:
            index = (header.first_row + row) % buffer.rows
            some.put(index, env, {name: each[number] for name, each in values.items()})


def _require_own(buffer: ReplayBuffer, header: BlockHeader, source: str) -> None:
    """The arrays are those of this run; only the number of rows, and of what some rows have, is the block's own."""
    own = {(one.group, one.name): str(one) for one in _describe(_arrays_of(buffer, 0, 0))}
    found = {(one.group, one.name): str(one) for one in header.arrays}
    for key in [*own, *found]:
        if own.get(key) != found.get(key):
            raise DamagedFile(
                f"{source} holds steps of another environment or of other settings: per step of all environments, "
                f"{key[1]} is {found.get(key, 'missing')} there and {own.get(key, 'missing')} in this run.",
                "Is it the replay buffer of another run?",
            )
    lengths = {group: {one.shape[0] for one in header.arrays if one.group == group} for group, _ in own}
    if lengths[ROWS] != {header.row_count} or any(len(one) != 1 for one in lengths.values()):
        raise DamagedFile(f"{source}: its arrays do not have the {header.row_count} rows that its header says.")


def _describe(arrays: ArraysByKey) -> tuple[ArrayHeader, ...]:
    return tuple(ArrayHeader(*key, array.dtype.str, array.shape) for key, array in arrays.items())


def _view(array: NDArray[Any]) -> memoryview:
    """Its bytes; a copy only where it is not contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _read_header(stream: BinaryIO, limit: int, source: str) -> tuple[BlockHeader, int]:
    """And how many bytes it has."""
    prefix = stream.read(min(limit, PREFIX.size))
    if len(prefix) < PREFIX.size:
        raise DamagedFile(f"{source} ends in the middle of its rows.")
    mark, length = PREFIX.unpack(prefix)
    if mark != MARK or length > min(MAX_HEADER_BYTES, limit - PREFIX.size):
        raise DamagedFile(f"{source} holds something else than rows of a replay buffer.")
    return _decode(stream.read(length), source), PREFIX.size + length


def encode_header(header: BlockHeader) -> bytes:
    arrays = [[one.group, one.name, one.dtype, one.shape] for one in header.arrays]
    text = json.dumps({"first_row": header.first_row, "rows": header.row_count, "arrays": arrays}).encode()
    return PREFIX.pack(MARK, len(text)) + text


def _decode(text: bytes, source: str) -> BlockHeader:
    try:
        content = json.loads(text)
        arrays = tuple(_array_header(*one) for one in content["arrays"])
        header = BlockHeader(_count(content["first_row"]), _count(content["rows"]), arrays)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFile(f"{source}: the header of its rows cannot be read ({error}).") from error
    if header.payload_bytes > MAX_PAYLOAD_BYTES:
        raise DamagedFile(f"{source}: the header of its rows asks for {header.payload_bytes} bytes.")
    return header


def _array_header(group: Any, name: Any, dtype: Any, shape: Any) -> ArrayHeader:
    if dtype not in DTYPES or not shape:
        raise ValueError(f"an array {dtype!r} {shape!r}")
    return ArrayHeader(str(group), str(name), dtype, tuple(map(_count, shape)))


def _count(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 1 << 62:
        raise ValueError(f"{number!r} is no count")
    return number
