"""Plain Python and NumPy values as data that any safe file can carry, and back, bit for bit.

None, bool, str, bytes, float and ordinary int stand for themselves; everything else is `{"kind": …}`, with the bytes
of arrays as bytes. Two names for one object stay two names for one object: the second is written as a reference.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MAX_DEPTH = 10  # each level is two in the file, and a trainer state may have 32
SMALLEST_INT, LARGEST_INT = -(2**63), 2**63 - 1
BIT_GENERATORS: dict[str, Callable[[], np.random.BitGenerator]] = {
    "PCG64": np.random.PCG64,
    "PCG64DXSM": np.random.PCG64DXSM,
    "MT19937": np.random.MT19937,
    "Philox": np.random.Philox,
    "SFC64": np.random.SFC64,
}


# Where a value was found: a name, or the place of its container with its key. Spelled out only for a refusal,
# because a table of ten thousand entries would spend most of its time on ten thousand names.
Place = str | tuple["Place", Any]


class UnsupportedValue(Exception):
    """A value that cannot be written, and why: "CartPole.state[2] is a …"."""

    def __init__(self, where: Place, reason: str) -> None:
        super().__init__(f"{_spelled(where)} {reason}")


class Encoder:
    """Writes the values of one environment; remembers what it has met, to write it once."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # id() of a mutable object -> its number
        self._shared_objects: list[Any] = []  # alive, so that no id() is used twice
        self._arrays: list[tuple[Place, NDArray[Any]]] = []

    def encode(self, value: Any, where: Place, depth: int = 0) -> Any:
        if value is None or type(value) in {bool, str, bytes, float}:
            return {"kind": "no bytes"} if value == b"" else value  # torch's safe reader has no word for them
        if type(value) is int:
            small = SMALLEST_INT <= value <= LARGEST_INT
            return value if small else {"kind": "int", "digits": str(value)}
        if depth > MAX_DEPTH:
            raise UnsupportedValue(where, f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, np.generic):
            return self._scalar(value, where)
        if type(value) is tuple:
            return {"kind": "tuple", "items": self._items(value, where, depth)}
        if id(value) in self._numbers:
            return {"kind": "same", "as": self._numbers[id(value)]}
        number = self._numbers[id(value)] = len(self._shared_objects)
        self._shared_objects.append(value)
        return {"number": number, **self._mutable(value, where, depth)}

    def _mutable(self, value: Any, where: Place, depth: int) -> dict[str, Any]:
        if type(value) is np.ndarray:
            return self._array(value, where)
        if type(value) is list:
            return {"kind": "list", "items": self._items(value, where, depth)}
        if type(value) is deque:
            return {"kind": "deque", "limit": value.maxlen, "items": self._items(value, where, depth)}
        if type(value) is dict:
            keys = [self.encode(key, where, depth + 1) for key in value]
            values = [self.encode(part, (where, key), depth + 1) for key, part in value.items()]
            return {"kind": "dict", "keys": keys, "values": values}
        if type(value) is set:
            return {"kind": "set", "items": self._items(_order_of_set(value, where), where, depth)}
        if type(value) is np.random.Generator:
            return self._generator(value.bit_generator, where, depth)
        if type(value) is random.Random:
            return {"kind": "random", "state": self.encode(value.getstate(), where, depth + 1)}
        raise UnsupportedValue(where, f"is a {type(value).__module__}.{type(value).__qualname__}, not plain data")

    def _items(self, values: Any, where: Place, depth: int) -> list[Any]:
        return [self.encode(value, (where, index), depth + 1) for index, value in enumerate(values)]

    def _scalar(self, value: np.generic, where: Place) -> dict[str, Any]:
        _refuse_odd_dtype(value.dtype, where)
        return {"kind": "scalar", "dtype": value.dtype.str, "data": value.tobytes() or None}

    def _generator(self, source: np.random.BitGenerator, where: Place, depth: int) -> dict[str, Any]:
        name = type(source).__name__
        if name not in BIT_GENERATORS:
            raise UnsupportedValue(where, f"draws from a {name}, which is not one of {', '.join(BIT_GENERATORS)}")
        return {"kind": "generator", "name": name, "state": self.encode(source.state, where, depth + 1)}

    def _array(self, value: NDArray[Any], where: Place) -> dict[str, Any]:
        _refuse_odd_dtype(value.dtype, where)
        self._refuse_shared_memory(value, where)
        order: Literal["C", "F"] = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        return {
            "kind": "array",
            "dtype": value.dtype.str,
            "shape": list(value.shape),
            "order": order,
            "writeable": bool(value.flags.writeable),
            "data": value.tobytes(order) or None,
        }

    def _refuse_shared_memory(self, value: NDArray[Any], where: Place) -> None:
        """Writing through one view would show in the other; copies of both would have lost that."""
        owner = _owner_of_memory(value)
        if owner is not None and not isinstance(owner, bytes | np.ndarray):
            raise UnsupportedValue(where, f"is a view into memory of a {type(owner).__name__}")
        for other_place, other in self._arrays:
            if np.may_share_memory(value, other):
                raise UnsupportedValue(where, f"shares its memory with {_spelled(other_place)}")
        self._arrays.append((where, value))


class Decoder:
    """Reads what one Encoder wrote. Only the kinds above are ever built."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}

    def decode(self, data: Any) -> Any:
        if data is None or isinstance(data, bool | int | float | str | bytes):
            return data
        try:
            return self._decode(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedFile(f"A saved environment state cannot be read ({type(error).__name__}: {error}).") from error

    def _decode(self, data: dict[str, Any]) -> Any:
        match data["kind"]:
            case "int":
                return int(data["digits"])
            case "no bytes":
                return b""
            case "scalar":
                return np.frombuffer(data["data"] or b"", _safe_dtype(data["dtype"]))[0]
            case "tuple":
                return tuple(self.decode(item) for item in data["items"])
            case "same":
                return self._objects[data["as"]]
            case "array":
                return self._keep(data, _read_array(data))
            case "generator":
                source = BIT_GENERATORS[data["name"]]()
                source.state = self.decode(data["state"])
                return self._keep(data, np.random.Generator(source))
            case "random":
                twister = random.Random()  # noqa: S311  a game's dice, not a secret
                twister.setstate(self.decode(data["state"]))
                return self._keep(data, twister)
            case _:
                return self._container(data)

    def _container(self, data: dict[str, Any]) -> Any:
        """Kept before it is filled, so that it may contain itself."""
        match data["kind"]:
            case "list":
                items: list[Any] = self._keep(data, [])
                items.extend(self.decode(item) for item in data["items"])
                return items
            case "deque":
                queue: deque[Any] = self._keep(data, deque(maxlen=data["limit"]))
                queue.extend(self.decode(item) for item in data["items"])
                return queue
            case "set":
                return self._keep(data, {self.decode(item) for item in data["items"]})
            case "dict":
                table: dict[Any, Any] = self._keep(data, {})
                for key, value in zip(data["keys"], data["values"], strict=True):
                    table[self.decode(key)] = self.decode(value)
                return table
            case other:
                raise DamagedFile(f"A saved environment state has a part of unknown kind {other!r}.")

    def _keep(self, data: dict[str, Any], made: Any) -> Any:
        self._objects[data["number"]] = made
        return made


def _spelled(where: Place) -> str:
    return where if isinstance(where, str) else f"{_spelled(where[0])}[{where[1]!r}]"


def _owner_of_memory(value: NDArray[Any]) -> object:
    """None or an array for NumPy's own memory, else the foreign object that lends it."""
    base: object = value.base
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return base


def _refuse_odd_dtype(dtype: np.dtype[Any], where: Place) -> None:
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        raise UnsupportedValue(where, f"has the dtype {dtype}")


def _order_of_set(value: set[Any], where: Place) -> list[Any]:
    """The order in which a set is walked depends on its history; only a set that is rebuilt alike may be written."""
    order = list(value)
    if any(type(item) is not int for item in order) or list(set(order)) != order:
        raise UnsupportedValue(where, "is a set whose order cannot be kept")
    return order


def _safe_dtype(text: str) -> np.dtype[Any]:
    dtype = np.dtype(str(text))
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"dtype {text!r}")
    return dtype


def _read_array(data: dict[str, Any]) -> NDArray[Any]:
    dtype = _safe_dtype(data["dtype"])
    flat = np.frombuffer(data["data"] or b"", dtype)
    array = flat.reshape(tuple(data["shape"]), order=data["order"]).copy(order=data["order"])
    array.flags.writeable = bool(data["writeable"])
    return array
