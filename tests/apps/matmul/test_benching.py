from argparse import Namespace
from pathlib import Path

import pytest

from palaestra.apps.matmul.archive import Archive, Provenance
from palaestra.apps.matmul.bench_store import BenchStore
from palaestra.apps.matmul.benching import bench
from palaestra.apps.matmul.verification import verify
from palaestra.core.errors import UsageError

ORIGIN = Provenance("01RUN", "flip", 1, 2, 3.0, 4.0, 5.0)
QUICK = ("dtypes=[object]", "object_sizes=[2]", "bits=[64]", "seconds=0.01")


def asked(*words):
    return Namespace(words=list(words), quiet=True, json=False)


def test_a_benchmark_is_kept_with_its_source_run_and_a_page(strassen, workplace):
    entry, _ = Archive(Path("runs")).add(verify(strassen), ORIGIN)
    answer = bench(asked("2x2x2", *QUICK))
    assert answer.data["source_run_id"] == "01RUN"
    assert [row[0] for row in answer.rows] == ["object 64 bits"]
    assert Path(answer.data["page"]).exists()
    assert [benchmark.id for benchmark in BenchStore(Path("runs")).of(entry.file.stem)] == [answer.data["id"]]
    assert "01RUN" in answer.notes[-1]


def test_a_scheme_over_gf2_is_refused_before_anything_is_compiled(strassen_bits, workplace):
    entry, _ = Archive(Path("runs")).add(verify(strassen_bits), ORIGIN)
    with pytest.raises(UsageError, match="modulo 2 only"):
        bench(asked(entry.fingerprint, "dtypes=[int64]"))


def test_without_a_compiler_it_says_so(strassen, workplace, monkeypatch):
    Archive(Path("runs")).add(verify(strassen), ORIGIN)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="no C compiler"):
        bench(asked("2x2x2"))


@pytest.mark.parametrize("words", [(), ("2x2x2", "3x3x3")])
def test_one_discovery_is_wanted(words, workplace):
    with pytest.raises(UsageError, match="One discovery"):
        bench(asked(*words))
