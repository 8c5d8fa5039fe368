"""Strassen's seven products, written out by hand from his formulas."""

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import Factorization, Format, with_tables
from palaestra.apps.matmul.schemes.fields import Field

# columns: 11, 12, 21, 22
A = [[1, 0, 0, 1], [0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0, 1], [1, 1, 0, 0], [-1, 0, 1, 0], [0, 1, 0, -1]]
B = [[1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, -1], [-1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]]
C = [[1, 0, 0, 1], [0, 0, 1, -1], [0, 1, 0, 1], [1, 0, 1, 0], [-1, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]


@pytest.fixture(scope="session", autouse=True)
def kernels(tmp_path_factory):
    """A cache directory for kernels, shared by all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.fixture
def strassen():
    u, v, w = (np.array(rows, dtype=np.int64) for rows in (A, B, C))
    return Factorization(Format(2, 2, 2), Field.ZT, u, v, w)


@pytest.fixture
def strassen_bits(strassen):
    u, v, w = (factor % 2 for factor in strassen.factors)
    return Factorization(strassen.format, Field.GF2, u, v, w)


@pytest.fixture
def gaussian(strassen):
    """Strassen's scheme in the basis P = diag(1, i) of the rows of A and of the product: x -> P x, z -> z P^-1."""
    turn = np.array([1, 1, 1j, 1j])  # of the rows of A; those of the product are divided by it
    return with_tables(strassen, (strassen.u * turn, strassen.v, strassen.w / turn), field=Field.ZI)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PALAESTRA_RUNS_DIR", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


@pytest.fixture
def one_thread():
    """One torch thread, since the network is too small to gain from more."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
