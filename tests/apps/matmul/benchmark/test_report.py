from __future__ import annotations

import json
from dataclasses import replace

import pytest

from palaestra.apps.matmul.benchmark.cells import Cell
from palaestra.apps.matmul.benchmark.report import (
    Benchmark,
    BenchStore,
    auto_table,
    describe_software,
    encode_benchmark,
    run_benchmark,
    summarize_cell,
)
from palaestra.apps.matmul.config import BenchConfig
from palaestra.apps.matmul.schemes.archive import Archive, Provenance
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.core.errors import UsageError
from palaestra.runs.environment import describe_hardware

QUICK = BenchConfig(dtypes=("float64", "modular", "object"), sizes=(16, 9), object_sizes=(2,), bits=(64,), seconds=0.01)


def cell(dtype, size, levels, gain=1.1):
    return Cell(dtype, size, "NumPy", gain, 1.0, levels, gain, 1.0, gain, "win", levels)


def test_a_benchmark_has_source_run_machine_and_all_comparisons(strassen, tmp_path):
    entry, _ = Archive(tmp_path).add(verify(strassen), Provenance("01RUN", "flip", 1, 2, 3.0, 4.0, 5.0))
    said = []
    made = run_benchmark(entry, QUICK, "01BENCH", said.append)
    data = json.loads(json.dumps(encode_benchmark(made)))
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


def test_a_scheme_over_gf2_is_refused(strassen_bits, tmp_path):
    entry, _ = Archive(tmp_path).add(verify(strassen_bits), Provenance("", "flip", 1, 2, 3.0, 4.0, 5.0))
    with pytest.raises(UsageError, match="modulo 2 only"):
        run_benchmark(entry, QUICK, "01BENCH", print)


def test_the_auto_table_is_sorted_by_dtype_and_size():
    table = auto_table([cell("float64", 512, 1), cell("float64", 64, 0), cell("object", 8, 2)])
    assert table.levels == {"float64": ((64, 0), (512, 1))}


def test_summaries_report_wins_and_losses():
    lost = Cell("float32", 64, "NumPy (BLAS)", 0.5, 1.0, 1, 0.5, 1.0, 0.5, "loss", 0)
    assert summarize_cell(lost) == "float32 64: loss, 1e+03 ms, 0.50 x NumPy (BLAS), algorithm 0.50 x (1 levels)"
    assert "not timed" in summarize_cell(Cell("int64", 64, "NumPy", None, 1.0, 1, None, None, 1.2, "win", 1))


WON = Cell("float32", 1024, "NumPy (BLAS)", 1.1, 1.0, 1, 1.1, 1.0, 1.1, "win", 1)


def made(name, discovery):
    software = {"blas": "b", "compiler": "c"}
    return Benchmark(
        name,
        discovery,
        "f",
        "01RUN",
        "2x2x2",
        "zt",
        7,
        15,
        0.0,
        1,
        {"cpu": "x"},
        software,
        6,
        (WON,),
        {"float32": 1024},
    )


def test_benchmarks_of_a_discovery_are_listed_newest_first(tmp_path):
    store = BenchStore(tmp_path)
    for name, discovery in (("01A", "one"), ("01B", "two"), ("01C", "one")):
        file = store.add(made(name, discovery))
        assert store.page(name).read_text().startswith("<!doctype html>")
        assert json.loads(file.read_text())["source_run_id"] == "01RUN"
    assert [benchmark.id for benchmark in store.of("one")] == ["01C", "01A"]
    assert store.of("three") == []


def test_a_damaged_benchmark_is_skipped(tmp_path):
    store = BenchStore(tmp_path)
    store.add(made("01A", "one"))
    store.add(made("01B", "one")).write_text("{")
    other = store.add(made("01C", "one"))
    other.write_text(other.read_text().replace('"cells"', '"rows"'))
    assert [benchmark.id for benchmark in store.all()] == ["01A"]


def test_auto_tables_merge_the_benchmarks_of_this_machine(tmp_path):
    store = BenchStore(tmp_path)
    here = replace(made("01A", "one"), hardware=describe_hardware(), software=describe_software())
    store.add(here)
    store.add(made("01B", "one"))  # of another machine
    store.add(replace(here, id="01C", threads=2, cells=(replace(WON, size=64),)))
    assert store.auto_table("one", 1).levels == {"float32": ((1024, 1),)}
    store.add(replace(here, id="01D", cells=(replace(WON, auto_levels=0), replace(WON, size=4096, auto_levels=2))))
    assert store.auto_table("one", 1).levels == {"float32": ((1024, 0), (4096, 2))}
    assert store.auto_table("two", 1).levels == {}
