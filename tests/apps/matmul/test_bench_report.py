import json

import pytest

from palaestra.apps.matmul.archive import Archive, Provenance
from palaestra.apps.matmul.bench_cells import Cell
from palaestra.apps.matmul.bench_config import BenchConfig
from palaestra.apps.matmul.bench_report import auto_table, plain, run_benchmark, sentence
from palaestra.apps.matmul.verification import verify
from palaestra.core.errors import UsageError

QUICK = BenchConfig(dtypes=("float64", "modular", "object"), sizes=(16, 9), object_sizes=(2,), bits=(64,), seconds=0.01)


def cell(dtype, size, levels, gain=1.1):
    return Cell(dtype, size, "NumPy", gain, 1.0, levels, gain, 1.0, gain, "win", levels)


def test_a_benchmark_names_the_run_the_machine_and_every_comparison(strassen, tmp_path):
    entry, _ = Archive(tmp_path).add(verify(strassen), Provenance("01RUN", "flip", 1, 2, 3.0, 4.0, 5.0))
    said = []
    made = run_benchmark(entry, QUICK, "01BENCH", said.append)
    data = json.loads(json.dumps(plain(made)))
    assert data["source_run_id"] == "01RUN"
    assert data["discovery"] == entry.file.stem
    assert data["hardware"]["cpu"]
    assert "openblas" in data["software"]["blas"].lower() or data["software"]["blas"]
    assert [(one["dtype"], one["size"]) for one in data["cells"]] == [
        ("float64", 9),
        ("float64", 16),
        ("modular", 9),
        ("modular", 16),
        ("object", 2),
    ]
    assert data["products_checked"] == 3 * 3 * 2
    assert data["additions"] == 18
    assert len(said) == 1 + len(data["cells"])


def test_a_scheme_over_gf2_is_not_timed_as_if_it_were_for_numbers(strassen_bits, tmp_path):
    entry, _ = Archive(tmp_path).add(verify(strassen_bits), Provenance("", "flip", 1, 2, 3.0, 4.0, 5.0))
    with pytest.raises(UsageError, match="modulo 2 only"):
        run_benchmark(entry, QUICK, "01BENCH", print)


def test_the_table_is_by_type_and_ascending():
    table = auto_table([cell("float64", 512, 1), cell("float64", 64, 0), cell("object", 8, 2)])
    assert table.levels == {"float64": ((64, 0), (512, 1))}


def test_a_loss_is_said_as_plainly_as_a_win():
    lost = Cell("float32", 64, "NumPy (BLAS)", 0.5, 1.0, 1, 0.5, 1.0, 0.5, "loss", 0)
    assert sentence(lost) == "float32 64: loss, 1e+03 ms, 0.50 x NumPy (BLAS), algorithm 0.50 x (1 levels)"
    assert "not timed" in sentence(Cell("int64", 64, "NumPy", None, 1.0, 1, None, None, 1.2, "win", 1))
