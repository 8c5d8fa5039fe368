from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from palaestra.apps.matmul.bench import bench, select_discovery
from palaestra.apps.matmul.benchmark.report import BenchStore
from palaestra.apps.matmul.schemes.archive import Archive, Provenance
from palaestra.apps.matmul.schemes.composition import join_schemes
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.run import RunRequest
from palaestra.runs.store import RunStore

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


ROOT = Path("runs")


@pytest.fixture
def entries(strassen, strassen_bits, workplace):
    run = RunStore(ROOT).create(RunRequest("matmul", "", {}), {}, "finder")
    wide = join_schemes(strassen, naive_factorization(Format(2, 2, 1), Field.ZT), "columns")
    claims = {"number": strassen, "bits": strassen_bits, "wide": wide}
    origins = {name: Provenance(run.id if name == "wide" else "", "flip", 1, 2, 3.0, 4.0, 5.0) for name in claims}
    return {name: Archive(ROOT).add(verify(claim), origins[name])[0] for name, claim in claims.items()}


def test_a_discovery_is_selected_by_id_fingerprint_run_or_format(entries):
    wanted = entries["number"].file
    assert select_discovery(wanted.stem, ROOT).file == wanted
    assert select_discovery(entries["number"].fingerprint[:10], ROOT).file == wanted
    assert select_discovery("2x2x2", ROOT).file == wanted  # schemes over numbers come before those over gf2
    assert select_discovery("finder", ROOT).file == entries["wide"].file
    assert select_discovery("3x2x2", ROOT).file == entries["wide"].file


def test_unknown_discoveries_are_refused_with_a_hint(entries):
    with pytest.raises(NotFound, match="No discovery named 'nothing'"):
        select_discovery("nothing", ROOT)
    with pytest.raises(NotFound) as refused:
        select_discovery("5x5x5", ROOT)
    assert "palaestra discover 5x5x5" in refused.value.hint


def test_an_empty_archive_is_refused_with_a_hint(workplace):
    with pytest.raises(NotFound, match="no discoveries"):
        select_discovery("2x2x2", ROOT)
