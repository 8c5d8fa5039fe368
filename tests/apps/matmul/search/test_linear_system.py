import time

import numpy as np
import pytest

from palaestra.apps.matmul.search.linear_system import LinearSystem


@pytest.mark.parametrize("prime", [2, 3])
@pytest.mark.parametrize("shape", [(5, 5), (8, 3), (3, 70), (90, 70)])
def test_solutions_satisfy_the_equations(prime, shape):
    rng = np.random.default_rng(sum(shape) + prime)
    matrix = rng.integers(0, prime, shape).astype(np.uint8)
    matrix[-1] = (matrix[0] + matrix[1]) % prime  # dependent
    system = LinearSystem(matrix, prime)
    for _ in range(20):
        right = matrix.astype(np.int64) @ rng.integers(0, prime, shape[1]) % prime
        solution = system.solve(right)
        assert (matrix @ solution % prime == right).all()
        right[-1] = (right[-1] + 1) % prime
        assert system.solve(right) is None


def test_a_late_reduction_says_so():
    assert LinearSystem(np.eye(3, dtype=np.uint8), 2, time.monotonic() - 1).is_late
