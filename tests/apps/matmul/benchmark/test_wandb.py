from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from palaestra.apps.matmul.benchmark.cells import Cell
from palaestra.apps.matmul.benchmark.report import Benchmark
from palaestra.apps.matmul.benchmark.wandb import COLUMNS, find_source_run, table_rows, upload_to_wandb
from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.discover import find_or_create_run
from palaestra.config.loggers import WandbConfig
from palaestra.core.errors import NotFound

FLOAT = Cell("float32", 1024, "NumPy (BLAS)", 0.02, 0.018, 2, 1.11, 1.0, 1.11, "win", 2, error=1e-6)
LONG = Cell("object", 16, "NumPy", None, 0.5, 1, None, None, 0.9, "loss", 0, detail="8192 bits")
MADE = Benchmark(
    "01BENCH", "2x2x2-zt-r7-abc", "abc", "01RUN", "2x2x2", "zt", 7, 15, 0.0, 2, {"cpu": "a processor"},
    {"blas": "openblas 1", "compiler": "cc"}, 6, (FLOAT, LONG), {},
)  # fmt: skip


def test_every_comparison_is_a_row_with_the_run_that_found_the_scheme():
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in table_rows(MADE)]
    assert [(row["Type"], row["Size"], row["Verdict"]) for row in rows] == [
        ("float32", 1024, "win"),
        ("object 8192 bits", 16, "loss"),
    ]
    assert {row["Source Run ID"] for row in rows} == {"01RUN"}
    assert {(row["Benchmark ID"], row["Threads"], row["CPU"]) for row in rows} == {("01BENCH", 2, "a processor")}
    assert (rows[0]["Scheme (ms)"], rows[0]["Baseline (ms)"], rows[0]["Gain"]) == (18.0, 20.0, 1.11)


def test_missing_timings_are_none():
    row = dict(zip(COLUMNS, table_rows(MADE)[1], strict=True))
    assert (row["Baseline (ms)"], row["Gain"], row["Error"]) == (None, None, None)


_file = Path(__file__).parents[3] / "loggers" / "wandb" / "test_logger.py"
_spec = importlib.util.spec_from_file_location("wandb_tests", _file)
wandb_tests = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(wandb_tests)
fake = wandb_tests.fake  # a fixture: a fake W&B that records calls

CELL = Cell("int64", 256, "NumPy", 3.0, 1.0, 1, 3.0, 2.0, 1.5, "win", 1)


def made_by(run):
    software = {"blas": "b", "compiler": "c"}
    return Benchmark("01BENCH", "d", "f", run, "2x2x2", "zt", 7, 15, 0.0, 1, {}, software, 6, (CELL, CELL), {})


@pytest.fixture
def run(workplace):
    return find_or_create_run(DiscoverConfig(), "first", "palaestra discover")


def test_the_table_is_uploaded_to_the_source_run(run, fake):
    message = upload_to_wandb(
        made_by(run.id), WandbConfig(enabled=True, grace_seconds=60), find_source_run(run.id, Path("runs"))
    )
    assert message == f"Uploaded to W&B as tables/benchmark of {run.id}."
    (begun,) = fake("init")
    assert (begun["given"]["id"], begun["given"]["name"], begun["given"]["resume"]) == (run.id, "first", "allow")
    (call,) = fake("log")
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in call["values"]["tables/benchmark"]]
    assert [row["Source Run ID"] for row in rows] == [run.id] * 2


def test_a_wandb_failure_becomes_a_note(run, fake, monkeypatch):
    monkeypatch.setenv("FAKE_WANDB", "raise:init")
    message = upload_to_wandb(made_by(run.id), WandbConfig(enabled=True, grace_seconds=60), run)
    assert "no luck in init" in message


@pytest.mark.parametrize("name", ["", "01ABSENT"])
def test_a_missing_source_run_is_refused(name, workplace):
    with pytest.raises(NotFound, match="no W&B run"):
        find_source_run(name, Path("runs"))
