from __future__ import annotations

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.scheme_files import decode_scheme, encode_scheme, read_npz, read_schemes
from palaestra.apps.matmul.schemes.verification import NotAnAlgorithm, verify
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile, UsageError


def holding(readings):
    found = []
    for reading in readings:
        try:
            found.append(verify(reading))
        except NotAnAlgorithm:
            continue
    return found


def transposed(claim):
    rows, _, columns = claim.format.sides
    return claim.w.reshape(-1, rows, columns).transpose(0, 2, 1).reshape(claim.rank, -1)


def test_json_round_trips(strassen, tmp_path):
    file = tmp_path / "one.json"
    file.write_text(json.dumps(encode_scheme(strassen)))
    (readings,) = read_schemes(file).values()
    assert [verify(reading).rank for reading in readings] == [7]


def test_catalogue_json_with_a_transposed_third_factor_is_read(tmp_path):
    claim = naive_factorization(Format(2, 3, 4), Field.Z)
    data = {
        "n": [2, 3, 4],
        "m": 24,
        "z2": False,
        "u": claim.u.tolist(),
        "v": claim.v.tolist(),
        "w": transposed(claim).tolist(),
    }
    file = tmp_path / "one.json"
    file.write_text(json.dumps(data))
    first = holding(read_schemes(file)[""])[0]
    assert first.field is Field.ZT
    assert (first.claim.w == claim.w).all()


def test_alphatensors_npz_is_read_with_all_its_schemes(strassen, tmp_path):
    stacked = np.stack([strassen.u.T, strassen.v.T, transposed(strassen).T])
    file = tmp_path / "factorizations.npz"
    np.savez(file, **{"2,2,2": stacked})
    readings = read_schemes(file)["2,2,2"]
    assert holding(readings)[0].rank == 7


def test_dyadic_fractions_are_read_with_a_denominator(strassen, tmp_path):
    file = tmp_path / "halves.npz"
    np.savez(file, U=strassen.u * 0.125, V=strassen.v * 4.0, W=strassen.w * 2.0)
    first = holding(read_schemes(file)[""])[0]
    assert (first.field, first.claim.denominators, first.rank) == (Field.Q, (8, 1, 1), 7)


def test_a_given_field_is_the_only_one_tried(strassen, tmp_path):
    file = tmp_path / "factorizations.npz"
    np.savez(file, **{"2,2,2": np.stack([factor.T for factor in strassen.factors])})
    assert {reading.field for reading in read_schemes(file, Field.GF2)["2,2,2"]} == {Field.GF2}


def test_pickles_are_never_loaded(tmp_path):
    file = tmp_path / "objects.npz"
    np.savez(file, **{"2,2,2": np.array([{"a": 1}], dtype=object)})
    with pytest.raises(RefusedFile):
        read_schemes(file)


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"n": [2, 2, 2]}', '{"n": [2, 2], "u": [], "v": [], "w": []}'])
def test_invalid_files_are_refused_by_name(text, tmp_path):
    file = tmp_path / "strange.json"
    file.write_text(text)
    with pytest.raises(DamagedFile, match="strange.json"):
        read_schemes(file)


def test_a_truncated_npz_is_refused_by_name(strassen, tmp_path):
    file = tmp_path / "cut.npz"
    np.savez(file, **{"2,2,2": np.stack([factor.T for factor in strassen.factors])})
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(DamagedFile, match="cut.npz"):
        read_schemes(file)


@pytest.mark.parametrize("name", ["absent.json", "absent.npz"])
def test_a_missing_file_is_not_found(name, tmp_path):
    with pytest.raises(NotFound):
        read_schemes(tmp_path / name)


@pytest.mark.parametrize(
    "damage", [{"denominators": [1, 1]}, {"denominators": [1, 1, 0]}, {"u": [[1]]}, {"field": "r"}]
)
def test_invalid_json_schemes_are_refused(damage, strassen):
    with pytest.raises(UsageError):
        decode_scheme(encode_scheme(strassen) | damage)


def as_alphatensor(claim):
    """NumPy saves factors of different shapes as a pickle."""
    found = np.empty(3, object)
    found[:] = [np.asarray(factor.T, np.int32) for factor in claim.factors]
    return found


def test_pickled_arrays_of_different_shapes_are_read(tmp_path):
    claim = naive_factorization(Format(2, 3, 4), Field.Z)
    np.savez(tmp_path / "a.npz", **{"2,3,4": as_alphatensor(claim), "2,2,2": np.zeros((3, 4, 7), int)})
    read = read_npz(tmp_path / "a.npz")
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
    format_, found = read_npz(tmp_path / "a.npz")[""]
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
        read_npz(tmp_path / "a.npz")
    assert not (tmp_path / "it-was-run").exists()


def test_a_size_mismatch_is_refused_before_allocation(tmp_path):
    stream = io.BytesIO()
    header = {"descr": "<i8", "fortran_order": False, "shape": (3, 1 << 40, 1 << 10)}
    np.lib.format.write_array_header_1_0(stream, header)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("2,2,2.npy", stream.getvalue())
    with pytest.raises(DamagedFile, match="does not match"):
        read_npz(tmp_path / "a.npz")


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
        read_npz(tmp_path / "a.npz")
