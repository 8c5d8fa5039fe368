import io
import os
import pickle
import zipfile

import numpy as np
import pytest

from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.npz_file import read_npz
from palaestra.core.errors import DamagedFile, RefusedFile, UsageError


def as_alphatensor(claim):
    """Factors of different shapes make NumPy save a pickle."""
    found = np.empty(3, object)
    found[:] = [np.asarray(factor.T, np.int32) for factor in claim.factors]
    return found


def test_factors_of_different_shapes_are_read_from_numpys_pickle(tmp_path):
    claim = schoolbook(Format(2, 3, 4), Field.Z)
    np.savez(tmp_path / "a.npz", **{"2,3,4": as_alphatensor(claim), "2,2,2": np.zeros((3, 4, 7), int)})
    read = read_npz(tmp_path / "a.npz")
    assert list(read) == ["2,3,4", "2,2,2"]
    format_, tables = read["2,3,4"]
    assert format_ == Format(2, 3, 4)
    assert all((table == factor).all() for table, factor in zip(tables, claim.factors, strict=True))


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("sides", [(2, 3, 4), (3, 3, 3), (1, 4, 2)])
def test_members_u_v_and_w_tell_their_format_by_their_shapes(sides, is_turned, tmp_path):
    claim = schoolbook(Format(*sides), Field.Z)
    tables = {name: factor.T if is_turned else factor for name, factor in zip("UVW", claim.factors, strict=True)}
    np.savez(tmp_path / "a.npz", **tables)
    format_, found = read_npz(tmp_path / "a.npz")[""]
    assert format_ == Format(*sides)
    assert (found[1] == claim.v).all()


class Evil:
    def __reduce__(self):
        return os.system, ("touch it-was-run",)


def test_a_pickle_that_asks_for_anything_else_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|O", "fortran_order": False, "shape": (3,)})
    stream.write(pickle.dumps(Evil()))
    with zipfile.ZipFile("a.npz", "w") as archive:
        archive.writestr("2,2,2.npy", stream.getvalue())
    with pytest.raises(RefusedFile, match="system"):
        read_npz(tmp_path / "a.npz")
    assert not (tmp_path / "it-was-run").exists()


def test_a_shape_that_its_bytes_do_not_fill_is_refused_before_memory_is_taken(tmp_path):
    stream = io.BytesIO()
    header = {"descr": "<i8", "fortran_order": False, "shape": (3, 1 << 40, 1 << 10)}
    np.lib.format.write_array_header_1_0(stream, header)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("2,2,2.npy", stream.getvalue())
    with pytest.raises(DamagedFile, match="not as long"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"weights": np.zeros((2, 2))}, "'weights' is not a scheme"),
        ({"U": np.zeros((7, 4)), "V": np.zeros((7, 5)), "W": np.zeros((7, 4))}, "fit no product"),
        ({"2,2,2": np.zeros((2, 4, 7))}, "u, v and w as"),
    ],
)
def test_what_is_no_scheme_is_refused_with_what_is_wanted(members, said, tmp_path):
    np.savez(tmp_path / "a.npz", **members)
    with pytest.raises(UsageError, match=said):
        read_npz(tmp_path / "a.npz")
