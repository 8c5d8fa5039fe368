"""Operations that torch does not have, or only a slow version of (native/policies/). Arrays are never converted."""

import numpy as np
from numpy.typing import NDArray

def code_sums(codes: NDArray[np.uint8], table: NDArray[np.float32], out: NDArray[np.float32], threads: int = 1) -> None:
    """out[n] = sum over cells c with codes[n, c] > 0 of table[c, codes[n, c] - 1]"""

def code_sums_backward(
    codes: NDArray[np.uint8], gradient: NDArray[np.float32], out: NDArray[np.float32], threads: int = 1
) -> None:
    """Adds the gradient of each sum to the rows of `out` that were summed"""

def tanh(numbers: NDArray[np.float32], out: NDArray[np.float32], threads: int = 1) -> None: ...
