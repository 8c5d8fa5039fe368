"""The exported code is run as a user would run it: its own test, and the products against NumPy."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.code_export import cpp_header, cpp_test, python_module, python_test
from palaestra.apps.matmul.schemes.composition import extend
from palaestra.apps.matmul.schemes.factorization import with_tables
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.rings import convert
from palaestra.core.errors import UsageError


@pytest.fixture
def claims(strassen):
    """Strassen's scheme, a rectangular one, one with halves, and both modulo 2 and 3."""
    base = np.array([1, 1, 2, 2])  # the second row of A and of the product in units of 1/2
    halves = with_tables(strassen, (strassen.u * base, strassen.v, strassen.w * (2 // base)), field=Field.Q)
    return {
        "square": strassen,
        "wide": extend(strassen, 2),
        "halves": with_tables(halves, halves.tables, denominators=(1, 1, 2)),
        "bits": convert(strassen, Field.GF2),
        "modulo3": convert(strassen, Field.Z3),
    }


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["square", "wide", "halves", "bits", "modulo3"])
def test_the_numpy_module_passes_its_own_test(name, claims, tmp_path):
    (tmp_path / "product.py").write_text(python_module(claims[name]))
    (tmp_path / "test_product.py").write_text(python_test(claims[name], "product"))
    assert "exact" in run([sys.executable, "test_product.py"], tmp_path)


def test_the_test_detects_a_wrong_sign(strassen, tmp_path):
    text = python_module(strassen)
    (tmp_path / "product.py").write_text(
        text.replace(" - m", " + m", 1) if " - m" in text else text.replace(" - ", " + ", 1)
    )
    (tmp_path / "test_product.py").write_text(python_test(strassen, "product"))
    assert subprocess.run([sys.executable, "test_product.py"], cwd=tmp_path, capture_output=True).returncode == 1


@pytest.mark.slow
def test_the_torch_module_passes_its_own_test(claims, tmp_path):
    (tmp_path / "product.py").write_text(python_module(claims["wide"], "torch"))
    (tmp_path / "test_product.py").write_text(python_test(claims["wide"], "product", "torch"))
    assert "exact" in run([sys.executable, "test_product.py"], tmp_path)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("name", ["wide", "halves", "modulo3"])
def test_the_header_compiles_without_warnings_and_passes_its_own_test(name, claims, tmp_path):
    (tmp_path / "product.hpp").write_text(cpp_header(claims[name]))
    (tmp_path / "test_product.cpp").write_text(cpp_test(claims[name], "product.hpp"))
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O0"]
    run(["g++", *flags, "test_product.cpp", "-o", "test"], tmp_path)
    assert "exact" in run(["./test"], tmp_path)


def test_complex_schemes_and_other_libraries_are_refused(strassen, gaussian):
    with pytest.raises(UsageError, match="zi"):
        cpp_header(gaussian)
    with pytest.raises(UsageError, match="No library named 'jax'"):
        python_module(strassen, "jax")
