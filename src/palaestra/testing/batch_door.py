"""The door of native/batch_door.h as ctypes sees it: to look into one, to step through it, to make one in Python.

For tests of whoever offers one. A door that is made of Python's functions works, but every step takes Python's lock.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

NAME = b"palaestra.batch_door"
VERSION = 1
MESSAGE_ROOM = 256

BEGIN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
END = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
STEP = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,  # batch
    ctypes.c_int32,  # first world
    ctypes.c_int32,  # last world
    ctypes.c_void_p,  # actions
    ctypes.POINTER(ctypes.c_void_p),  # seen
    ctypes.c_void_p,  # rewards
    ctypes.c_void_p,  # ended
    ctypes.c_void_p,  # message
    ctypes.c_size_t,  # its room
)

_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Part(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("items", ctypes.c_int64))


class Door(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32),
        ("world_count", ctypes.c_int32),
        ("agents", ctypes.c_int32),
        ("action_items", ctypes.c_int32),
        ("part_count", ctypes.c_int32),
        ("parts", ctypes.POINTER(Part)),
        ("batch", ctypes.c_void_p),
        ("begin", BEGIN),
        ("end", END),
        ("step", STEP),
    )

    def told_parts(self) -> list[tuple[str, str, int]]:
        """Name, dtype and items of a row, of each part of an observation"""
        parts = [self.parts[number] for number in range(self.part_count)]
        return [(part.name.decode(), part.dtype.decode(), part.items) for part in parts]

    def take_turn(self) -> None:
        """RuntimeError with the door's own words where it is somebody else's turn; `end_turn` gives it back."""
        message = ctypes.create_string_buffer(MESSAGE_ROOM)
        if self.begin(self.batch, message, MESSAGE_ROOM):
            raise RuntimeError(message.value.decode())

    def end_turn(self) -> None:
        self.end(self.batch)

    def step_worlds(
        self,
        first: int,
        last: int,
        actions: NDArray[np.int64],
        seen: Sequence[np.ndarray],
        rewards: NDArray[np.float32],
        ended: NDArray[np.uint8],
    ) -> None:
        """Worlds from `first` to before `last`, within a turn; arrays are of all rows, and C-contiguous."""
        message = ctypes.create_string_buffer(MESSAGE_ROOM)
        places = (ctypes.c_void_p * len(seen))(*(part.ctypes.data for part in seen))
        data = actions.ctypes.data, places, rewards.ctypes.data, ended.ctypes.data
        if self.step(self.batch, first, last, *data, message, MESSAGE_ROOM):
            raise RuntimeError(message.value.decode())


def look_into(capsule: Any) -> Door:
    """Good as long as the capsule is held"""
    return Door.from_address(_pointer_in(capsule, NAME))


def capsule_of(door: Door, name: bytes = NAME) -> Any:
    """`door` and `name` must be held as long as it."""
    return _new_capsule(ctypes.addressof(door), name, None)


def make_door(
    world_count: int,
    agents: int,
    parts: Mapping[str, tuple[str, int]],
    step: Callable[[int, int, NDArray[np.int64], list[np.ndarray], NDArray[np.float32], NDArray[np.uint8]], None],
    action_items: int = 1,
) -> Door:
    """`parts`: dtype and items of a row. `step`: as `Door.step_worlds`; what it raises becomes the message."""
    rows = world_count * agents

    def stepped(_batch: Any, first: int, last: int, actions: int, seen: Any, rewards: int, ended: int, *to: int) -> int:
        places = [_array(seen[k], rows * items, dtype) for k, (dtype, items) in enumerate(parts.values())]
        paid, over = _array(rewards, rows, "float32"), _array(ended, world_count, "uint8")
        try:
            step(first, last, _array(actions, rows * action_items, "int64"), places, paid, over)
        except (ArithmeticError, LookupError, ValueError, RuntimeError) as error:
            words = str(error).encode()[: to[1] - 1]
            ctypes.memmove(to[0], words + b"\0", len(words) + 1)
            return -1
        return 0

    told = (Part * len(parts))(*(Part(name.encode(), dtype.encode(), items) for name, (dtype, items) in parts.items()))
    nobody_else = BEGIN(lambda *_: 0), END(lambda *_: None)
    return Door(VERSION, world_count, agents, action_items, len(parts), told, None, *nobody_else, STEP(stepped))


def _array(address: int, count: int, dtype: str) -> np.ndarray:
    size = count * np.dtype(dtype).itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    array: np.ndarray = np.frombuffer(memory, dtype)
    return array
