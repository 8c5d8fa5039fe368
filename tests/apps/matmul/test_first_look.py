import pytest

from palaestra.apps.matmul import first_look as module
from palaestra.apps.matmul.archive import Archive, Provenance
from palaestra.apps.matmul.bench_cells import Cell
from palaestra.apps.matmul.bench_report import Benchmark
from palaestra.apps.matmul.bench_store import BenchStore
from palaestra.apps.matmul.first_look import first_look
from palaestra.apps.matmul.verification import verify
from palaestra.core.errors import RunFailed
from palaestra.loggers.fanout import Fanout
from palaestra.runs.directory import RunDirectory

ORIGIN = Provenance("01RUN", "flip", 1, 2, 3.0, 4.0, 5.0)


class Tables:
    """A sink for tables only."""

    name = "tables"

    def __init__(self):
        self.kept = []

    def table_made(self, name, columns, rows):
        self.kept.append((name, columns, rows))


def heard_by(sink=None):
    def fail(name, error):
        raise AssertionError(f"{name} was dropped: {error}")

    sinks = Fanout(fail)
    if sink is not None:
        sinks.add(sink.name, lambda: sink)
    return sinks


class Notes:
    def __init__(self):
        self.kept = []

    def record(self, event, *, level=None, **data):
        self.kept.append((event, data))


def timed(entry, config, name, *, aloud, timeout):
    cell = Cell("int64", 256, "NumPy", 3.0, 1.0, 1, 3.0, 2.0, 1.5, "win", 1)
    software = {"blas": "b", "compiler": "c"}
    return Benchmark(
        name, entry.file.stem, "f", "01RUN", "2x2x2", "zt", 7, 15, 0.0, 1, {}, software, 6, (cell,), {"int64": 256}
    )


@pytest.fixture
def directory(tmp_path):
    return RunDirectory(tmp_path / "01RUN")


def test_a_scheme_for_numbers_is_timed_kept_and_told(strassen, directory, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "benchmark_apart", timed)
    entry, _ = Archive(tmp_path).add(verify(strassen), ORIGIN)
    notes, tables = Notes(), Tables()
    assert "int64 256: algorithm 1.50 x" in first_look(entry, directory, notes, heard_by(tables))
    assert len(BenchStore(tmp_path).of(entry.file.stem)) == 1
    assert [(event, data["kind"]) for event, data in notes.kept] == [("artifact.saved", "benchmark")]
    ((name, columns, rows),) = tables.kept
    assert name == "benchmark"
    assert dict(zip(columns, rows[0], strict=True))["Source Run ID"] == "01RUN"


def test_a_scheme_for_bits_is_not(strassen_bits, directory, tmp_path):
    entry, _ = Archive(tmp_path).add(verify(strassen_bits), ORIGIN)
    assert first_look(entry, directory, Notes(), heard_by()) == ""


def test_a_benchmark_that_fails_takes_nothing_from_the_discovery(strassen, directory, tmp_path, monkeypatch):
    def fail(*_given, **_more):
        raise RunFailed("no compiler")

    monkeypatch.setattr(module, "benchmark_apart", fail)
    entry, _ = Archive(tmp_path).add(verify(strassen), ORIGIN)
    assert "no compiler" in first_look(entry, directory, Notes(), heard_by())
