"""Loops that torch has no kernel for, or a slow one (native/policies/). Arrays are taken as they are, or refused."""

import numpy as np
from numpy.typing import NDArray

def code_sums(
    codes: NDArray[np.uint8], table: NDArray[np.float32], out: NDArray[np.float32], threads: int = 1
) -> None: ...
def code_slopes(
    codes: NDArray[np.uint8], slope: NDArray[np.float32], out: NDArray[np.float32], threads: int = 1
) -> None: ...
def tanh(numbers: NDArray[np.float32], out: NDArray[np.float32], threads: int = 1) -> None: ...
