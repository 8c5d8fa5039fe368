"""Arrays of one number that `float`, `int` and an element of another array take.

NumPy before 2.4 took every array of one number as that number. Scripts for one environment rely on it: their rewards,
their ends and the action of their network are arrays of one number.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np


class OneNumber(np.ndarray):
    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())


def is_needed() -> bool:
    """Whether this NumPy refuses what the older ones took."""
    try:
        float(np.ones(1))
    except TypeError:
        return True
    return False


def as_one_number(array: Any) -> Any:
    """The same memory; an array that is not of one number is returned as it is."""
    return array.view(OneNumber) if array.size == 1 and array.ndim else array


def install() -> list[str]:
    """For the networks' actions: what `Tensor.numpy()` returns. `compat` does the same for vector environments."""
    if not is_needed():
        return []
    done = "arrays of one number, from environments and tensors, are taken as that number"
    if importlib.util.find_spec("torch") is not None:
        tensor: Any = importlib.import_module("torch").Tensor
        tensor.numpy = _numpy_method(tensor.numpy)
    return [done]


def _numpy_method(original: Any) -> Any:
    def numpy(self: Any, **options: Any) -> Any:
        return as_one_number(original(self, **options))

    return numpy
