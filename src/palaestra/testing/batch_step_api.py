"""The batch step API of native/batch_step_api.h in ctypes: to inspect one, to step through it, to build one in Python.

For tests of packages that offer one. An API built of Python functions works, but every step takes the GIL.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

NAME = b"palaestra.batch_step_api"
VERSION = 1
MESSAGE_SIZE = 256

BEGIN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
END = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
STEP = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,  # batch
    ctypes.c_int32,  # first world
    ctypes.c_int32,  # last world
    ctypes.c_void_p,  # actions
    ctypes.POINTER(ctypes.c_void_p),  # observations
    ctypes.c_void_p,  # rewards
    ctypes.c_void_p,  # ended
    ctypes.c_void_p,  # message
    ctypes.c_size_t,  # size of the message's buffer
)

_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class BatchPart(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("items", ctypes.c_int64))


class BatchStepApi(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32),
        ("world_count", ctypes.c_int32),
        ("agents", ctypes.c_int32),
        ("action_items", ctypes.c_int32),
        ("part_count", ctypes.c_int32),
        ("parts", ctypes.POINTER(BatchPart)),
        ("batch", ctypes.c_void_p),
        ("begin", BEGIN),
        ("end", END),
        ("step", STEP),
    )

    def describe_parts(self) -> list[tuple[str, str, int]]:
        """Name, dtype and items of a row, for each part of the observation"""
        parts = [self.parts[number] for number in range(self.part_count)]
        return [(part.name.decode(), part.dtype.decode(), part.items) for part in parts]

    def acquire(self) -> None:
        """Reserve the batch; RuntimeError with the API's message if another caller has reserved it."""
        message = ctypes.create_string_buffer(MESSAGE_SIZE)
        if self.begin(self.batch, message, MESSAGE_SIZE):
            raise RuntimeError(message.value.decode())

    def release(self) -> None:
        self.end(self.batch)

    def step_worlds(
        self,
        first: int,
        last: int,
        actions: NDArray[np.int64],
        observations: Sequence[np.ndarray],
        rewards: NDArray[np.float32],
        ended: NDArray[np.uint8],
    ) -> None:
        """Step the worlds [first, last) of an acquired batch. Arrays are C-contiguous and hold all rows."""
        message = ctypes.create_string_buffer(MESSAGE_SIZE)
        parts = (ctypes.c_void_p * len(observations))(*(part.ctypes.data for part in observations))
        data = actions.ctypes.data, parts, rewards.ctypes.data, ended.ctypes.data
        if self.step(self.batch, first, last, *data, message, MESSAGE_SIZE):
            raise RuntimeError(message.value.decode())


def read_capsule(capsule: Any) -> BatchStepApi:
    """The struct in a capsule; valid as long as the capsule lives."""
    return BatchStepApi.from_address(_capsule_pointer(capsule, NAME))


def make_capsule(api: BatchStepApi, name: bytes = NAME) -> Any:
    """A capsule of the struct; `api` and `name` must outlive it."""
    return _new_capsule(ctypes.addressof(api), name, None)


def make_step_api(
    world_count: int,
    agents: int,
    parts: Mapping[str, tuple[str, int]],
    step: Callable[[int, int, NDArray[np.int64], list[np.ndarray], NDArray[np.float32], NDArray[np.uint8]], None],
    action_items: int = 1,
) -> BatchStepApi:
    """`parts`: dtype and items of a row. `step`: as `BatchStepApi.step_worlds`; its exceptions become the message."""
    rows = world_count * agents

    def step_function(
        _batch: Any, first: int, last: int, actions: int, observations: Any, rewards: int, ended: int, *message: int
    ) -> int:
        arrays = [_array(observations[k], rows * items, dtype) for k, (dtype, items) in enumerate(parts.values())]
        reward_array, ended_array = _array(rewards, rows, "float32"), _array(ended, world_count, "uint8")
        try:
            step(first, last, _array(actions, rows * action_items, "int64"), arrays, reward_array, ended_array)
        except (ArithmeticError, LookupError, ValueError, RuntimeError) as error:
            address, size = message
            text = str(error).encode()[: size - 1]
            ctypes.memmove(address, text + b"\0", len(text) + 1)
            return -1
        return 0

    part_array = (BatchPart * len(parts))(
        *(BatchPart(name.encode(), dtype.encode(), items) for name, (dtype, items) in parts.items())
    )
    begin, end = BEGIN(lambda *_: 0), END(lambda *_: None)
    return BatchStepApi(
        VERSION, world_count, agents, action_items, len(parts), part_array, None, begin, end, STEP(step_function)
    )


def _array(address: int, count: int, dtype: str) -> np.ndarray:
    size = count * np.dtype(dtype).itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    array: np.ndarray = np.frombuffer(memory, dtype)
    return array
