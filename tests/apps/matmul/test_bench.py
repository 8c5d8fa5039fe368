from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from palaestra.apps.matmul.bench import bench
from palaestra.apps.matmul.benchmark.report import BenchStore
from palaestra.apps.matmul.schemes.archive import Archive, Provenance
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.core.errors import UsageError

ORIGIN = Provenance("01RUN", "flip", 1, 2, 3.0, 4.0, 5.0)
QUICK = ("dtypes=[object]", "object_sizes=[2]", "bits=[64]", "seconds=0.01")


def arguments(*settings):
    return Namespace(settings=list(settings), quiet=True, json=False)


def test_a_benchmark_is_stored_with_source_run_and_page(strassen, workplace):
    entry, _ = Archive(Path("runs")).add(verify(strassen), ORIGIN)
    result = bench(arguments("2x2x2", *QUICK))
    assert result.data["source_run_id"] == "01RUN"
    assert [row[0] for row in result.rows] == ["object 64 bits"]
    assert Path(result.data["page"]).exists()
    assert [benchmark.id for benchmark in BenchStore(Path("runs")).of(entry.file.stem)] == [result.data["id"]]
    assert "01RUN" in result.notes[-1]


def test_a_scheme_over_gf2_is_refused_before_anything_is_compiled(strassen_bits, workplace):
    entry, _ = Archive(Path("runs")).add(verify(strassen_bits), ORIGIN)
    with pytest.raises(UsageError, match="modulo 2 only"):
        bench(arguments(entry.fingerprint, "dtypes=[int64]"))


def test_without_a_compiler_bench_fails(strassen, workplace, monkeypatch):
    Archive(Path("runs")).add(verify(strassen), ORIGIN)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="No C compiler"):
        bench(arguments("2x2x2"))


@pytest.mark.parametrize("settings", [(), ("2x2x2", "3x3x3")])
def test_exactly_one_discovery_is_required(settings, workplace):
    with pytest.raises(UsageError, match="Expected one discovery"):
        bench(arguments(*settings))
