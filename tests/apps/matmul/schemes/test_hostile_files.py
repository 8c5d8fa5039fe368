"""Damaged copies of valid files: whatever the damage, reading ends with a scheme or with an error of ours."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import naive_factorization, parse_format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.formulas import formulas
from palaestra.apps.matmul.schemes.scheme_files import encode_scheme, read_schemes
from palaestra.apps.matmul.verify import verify_any
from palaestra.core.errors import PalaestraError

FRESH = {
    "n": [1, 1, 2],
    "m": 2,
    "z2": False,
    "u_fresh": [[{"index": 0, "value": 1}]],
    "u": [[{"index": 1, "value": 1}], [{"index": 0, "value": 1}]],
    "v_fresh": [],
    "v": [[{"index": 0, "value": 1}], [{"index": 1, "value": 1}]],
    "w_fresh": [],
    "w": [[{"index": 0, "value": 1}], [{"index": 1, "value": 1}]],
}
PIECES = ["", "(", ")", "*", "/0", "-", "9" * 30, "i", "[", "{", "\0", "é"]
VALUES = [None, True, -1, 0.5, 1e308, 10**30, "1/2", "i", "9" * 500, [], {}, [[1]], "x", float("nan")]


def texts(strassen):
    """A valid file of each kind, as bytes, by its suffix."""
    rows = [[part.reshape(2, 2).tolist() for part in row] for row in zip(*strassen.factors, strict=True)]
    matrices = ", ".join("Triad([" + ", ".join(f"Matrix(2, 2, {matrix})" for matrix in row) + "])" for row in rows)
    numbers = " ".join(str(value) for factor in strassen.factors for value in factor.ravel())
    return [
        (".json", json.dumps(encode_scheme(strassen))),
        (".json", json.dumps(FRESH)),
        (".txt", "\n".join(formulas(strassen))),
        (".txt", f"2 2 2 7\n{numbers}"),
        (".exp", "(a11+a22)*(b11-b22)*c11\na12*b21*c12"),
        (".m", str(rows).replace("[", "{").replace("]", "}")),
        (".mpl", f"Tensor:=TriadSet([{matrices}]):"),
    ]


def read(file):
    """The ranks of the valid schemes of a file; errors of ours are an answer too, any other is a defect."""
    try:
        return [verify_any(readings).rank for readings in read_schemes(file).values()]
    except PalaestraError:
        return []


@pytest.mark.parametrize("kind", range(7))
def test_damaged_texts_end_with_our_errors(kind, strassen, tmp_path):
    suffix, text = texts(strassen)[kind]
    file = tmp_path / f"a{suffix}"
    rng = random.Random(kind)
    for _ in range(300):
        damaged = list(text)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(damaged))
            damaged[at : at + rng.randrange(3)] = rng.choice(
                ["", "(", ")", "*", "/0", "-", "9" * 30, "i", "[", "{", "\0", "é"]
            )
        file.write_text("".join(damaged), "utf-8")
        read(file)


@pytest.mark.parametrize("data", [FRESH, None])
def test_wrong_values_in_json_end_with_our_errors(data, strassen, tmp_path):
    file = tmp_path / "a.json"
    for key in list(data or encode_scheme(strassen)):
        for value in VALUES:
            changed = json.loads(json.dumps(data or encode_scheme(strassen)))
            for wrong in (value, [value], [[value]], [[[{"index": value, "value": value}]]]):
                changed[key] = wrong
                file.write_text(json.dumps(changed))
                read(file)


def test_damaged_npz_files_end_with_our_errors(strassen, tmp_path):
    file, rng = tmp_path / "a.npz", random.Random(1)
    mixed = np.empty(3, object)
    mixed[:] = [factor.T for factor in naive_factorization(parse_format("2x3x4"), Field.Z).factors]
    np.savez(file, **{"2,2,2": np.stack([factor.T for factor in strassen.factors]), "2,3,4": mixed})
    content = file.read_bytes()
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(rng.randrange(1, 8)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        file.write_bytes(damaged)
        read(file)


def test_a_chain_of_sums_does_not_exhaust_time_or_memory(tmp_path):
    """A sum of all entries of a, used a hundred thousand times."""
    file = tmp_path / "a.txt"
    wide = "s = " + " + ".join(f"a{i}_{j}" for i in range(1, 17) for j in range(1, 17))
    file.write_text(wide + "\n" + "\n".join(f"t{k} = s - {k}*s" for k in range(100_000)))
    with pytest.raises(PalaestraError, match="too many terms"):
        read_schemes(file)
