from __future__ import annotations

import json

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.scheme_files import decode_scheme, encode_scheme, read_schemes
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


def test_scalars_of_a_row_do_not_hide_that_a_scheme_is_ternary(strassen, tmp_path):
    file = tmp_path / "halves.npz"
    np.savez(file, U=strassen.u * 0.125, V=strassen.v * 4.0, W=strassen.w * 2.0)
    first = holding(read_schemes(file)[""])[0]
    assert (first.field, first.claim.denominators, first.rank) == (Field.ZT, (1, 1, 1), 7)
    as_stated = holding(read_schemes(file, Field.Q)[""])[0]
    assert as_stated.field is Field.Q


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
