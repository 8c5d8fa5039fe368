import numpy as np
import pytest

from palaestra.apps.matmul.benchmark import exact_check
from palaestra.apps.matmul.benchmark.exact_check import check_exact, exact_product
from palaestra.apps.matmul.benchmark.executor import Executor
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.core.errors import RunFailed


def test_strassen_is_exact_for_every_dtype(strassen):
    assert check_exact(verify(strassen), ("float32", "float64", "int64", "modular", "object"), 1, 1) == 5 * 3 * 2


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_one_wrong_entry_is_detected(strassen, monkeypatch, dtype):
    class Wrong(Executor):
        def __call__(self, a, b, out=None, levels=1):
            made = super().__call__(a, b, out, levels)
            made[-1, 0] += 1
            return made

    monkeypatch.setattr(exact_check, "Executor", Wrong)
    with pytest.raises(RunFailed, match="1 of 144 entries differ"):
        check_exact(verify(strassen), (dtype,), 1, 1)


def test_a_fractional_float_is_detected(strassen, monkeypatch):
    class Near(Executor):
        def __call__(self, a, b, out=None, levels=1):
            return super().__call__(a, b, out, levels) + 0.25

    monkeypatch.setattr(exact_check, "Executor", Near)
    with pytest.raises(RunFailed, match="generated code is wrong"):
        check_exact(verify(strassen), ("float64",), 1, 1)


def test_the_reference_is_unbounded():
    big = np.array([[2**62]])
    assert exact_product(big, big)[0, 0] == 2**124
