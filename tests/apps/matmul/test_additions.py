import numpy as np

from palaestra.apps.matmul.additions import count_additions
from palaestra.apps.matmul.factorization import Factorization, schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format

# Winograd's form of seven products; columns 11, 12, 21, 22
A = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, -1, -1], [0, 0, 0, 1], [0, 0, 1, 1], [-1, 0, 1, 1], [1, 0, -1, 0]]
B = [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, -1, -1, 1], [-1, 1, 0, 0], [1, -1, 0, 1], [0, -1, 0, 1]]
C = [[1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0], [0, 1, 0, 1], [0, 1, 1, 1], [0, 0, 1, 1]]


def test_the_schoolbook_adds_only_products():
    counted = count_additions(schoolbook(Format(2, 3, 4), Field.Z))
    assert (counted.naive, counted.eliminated) == (2 * 4 * 2, 2 * 4 * 2)


def test_strassen_takes_eighteen_additions(strassen):
    assert count_additions(strassen).naive == 18


def test_winograds_form_takes_fifteen_after_elimination():
    u, v, w = (np.array(rows, dtype=np.int64) for rows in (A, B, C))
    counted = count_additions(Factorization(Format(2, 2, 2), Field.ZT, u, v, w))
    assert counted.naive == 24
    assert counted.eliminated == 15


def test_equal_sums_are_made_once():
    u = np.array([[1, 1], [1, 1], [-1, -1]], dtype=np.int64)
    ones = np.ones((3, 2), dtype=np.int64)
    claim = Factorization(Format(1, 2, 1), Field.Z, u, ones, np.ones((3, 1), dtype=np.int64))
    assert count_additions(claim).eliminated == 1 + 1 + 2
