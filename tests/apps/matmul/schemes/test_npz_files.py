from __future__ import annotations

import io
import os
import pickle
import zipfile

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.npz_files import read_npz
from palaestra.core.errors import DamagedFile, RefusedFile, UsageError


def as_alphatensor(claim):
    """NumPy saves factors of different shapes as a pickle."""
    found = np.empty(3, object)
    found[:] = [np.asarray(factor.T, np.int32) for factor in claim.factors]
    return found


def test_pickled_arrays_of_different_shapes_are_read(tmp_path):
    claim = naive_factorization(Format(2, 3, 4), Field.Z)
    np.savez(tmp_path / "a.npz", **{"2,3,4": as_alphatensor(claim), "2,2,2": np.zeros((3, 4, 7), int)})
    read = {key: found for key, *found in read_npz(tmp_path / "a.npz")}
    assert list(read) == ["2,3,4", "2,2,2"]
    format_, tables = read["2,3,4"]
    assert format_ == Format(2, 3, 4)
    assert all((table == factor).all() for table, factor in zip(tables, claim.factors, strict=True))


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("sides", [(2, 3, 4), (3, 3, 3), (1, 4, 2)])
def test_the_format_of_u_v_w_members_follows_from_their_shapes(sides, is_transposed, tmp_path):
    claim = naive_factorization(Format(*sides), Field.Z)
    tables = {name: factor.T if is_transposed else factor for name, factor in zip("UVW", claim.factors, strict=True)}
    np.savez(tmp_path / "a.npz", **tables)
    ((_, format_, found),) = read_npz(tmp_path / "a.npz")
    assert format_ == Format(*sides)
    assert (found[1] == claim.v).all()


class Evil:
    def __reduce__(self):
        return os.system, ("touch it-was-run",)


def test_pickles_with_other_objects_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|O", "fortran_order": False, "shape": (3,)})
    stream.write(pickle.dumps(Evil()))
    with zipfile.ZipFile("a.npz", "w") as archive:
        archive.writestr("2,2,2.npy", stream.getvalue())
    with pytest.raises(RefusedFile, match="system"):
        list(read_npz(tmp_path / "a.npz"))
    assert not (tmp_path / "it-was-run").exists()


def test_a_size_mismatch_is_refused_before_allocation(tmp_path):
    stream = io.BytesIO()
    header = {"descr": "<i8", "fortran_order": False, "shape": (3, 1 << 40, 1 << 10)}
    np.lib.format.write_array_header_1_0(stream, header)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("2,2,2.npy", stream.getvalue())
    with pytest.raises(DamagedFile, match="does not match"):
        list(read_npz(tmp_path / "a.npz"))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"weights": np.zeros((2, 2))}, "'weights' is not a scheme"),
        ({"U": np.zeros((7, 4)), "V": np.zeros((7, 5)), "W": np.zeros((7, 4))}, "do not match any matrix product"),
        ({"2,2,2": np.zeros((2, 4, 7))}, "u, v and w as"),
    ],
)
def test_invalid_tables_are_refused_with_the_expected_shapes(members, message, tmp_path):
    np.savez(tmp_path / "a.npz", **members)
    with pytest.raises(UsageError, match=message):
        list(read_npz(tmp_path / "a.npz"))


def test_a_stack_of_schemes_for_square_matrices_is_read_one_by_one(strassen, tmp_path):
    stack = np.stack([np.stack(strassen.factors, axis=1)] * 2).astype(np.int8)  # [schemes, rank, 3, entries]
    np.savez(tmp_path / "a.npz", factorizations=stack)
    found = list(read_npz(tmp_path / "a.npz"))
    assert [key for key, *_ in found] == ["factorizations[0]", "factorizations[1]"]
    assert (found[1][2][2] == strassen.w).all()
