import importlib.util
from pathlib import Path

import pytest

from palaestra.apps.matmul.bench_cells import Cell
from palaestra.apps.matmul.bench_report import Benchmark
from palaestra.apps.matmul.bench_table import COLUMNS
from palaestra.apps.matmul.bench_wandb import source_run, tell_wandb
from palaestra.apps.matmul.discover_config import DiscoverConfig
from palaestra.apps.matmul.discovering import find_or_make
from palaestra.config.sinks import WandbConfig
from palaestra.core.errors import NotFound

_file = Path(__file__).parents[2] / "loggers" / "test_wandb.py"
_spec = importlib.util.spec_from_file_location("wandb_tests", _file)
wandb_tests = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(wandb_tests)
fake = wandb_tests.fake  # a fixture: a fake W&B, and what it was told

CELL = Cell("int64", 256, "NumPy", 3.0, 1.0, 1, 3.0, 2.0, 1.5, "win", 1)


def made_by(run):
    software = {"blas": "b", "compiler": "c"}
    return Benchmark("01BENCH", "d", "f", run, "2x2x2", "zt", 7, 15, 0.0, 1, {}, software, 6, (CELL, CELL), {})


@pytest.fixture
def run(workplace):
    return find_or_make(DiscoverConfig(), "first", "palaestra discover")


def test_the_table_goes_to_the_run_that_found_the_scheme(run, fake):
    said = tell_wandb(made_by(run.id), WandbConfig(enabled=True, grace_seconds=60), source_run(run.id, Path("runs")))
    assert said == f"W&B has it as tables/benchmark of {run.id}."
    (begun,) = fake("init")
    assert (begun["given"]["id"], begun["given"]["name"], begun["given"]["resume"]) == (run.id, "first", "allow")
    (call,) = fake("log")
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in call["values"]["tables/benchmark"]]
    assert [row["Source Run ID"] for row in rows] == [run.id] * 2


def test_what_wandb_cannot_take_is_said_and_costs_nothing_else(run, fake, monkeypatch):
    monkeypatch.setenv("FAKE_WANDB", "raise:init")
    said = tell_wandb(made_by(run.id), WandbConfig(enabled=True, grace_seconds=60), run)
    assert "no luck in init" in said


@pytest.mark.parametrize("name", ["", "01ABSENT"])
def test_a_scheme_whose_run_is_not_here_has_no_page(name, workplace):
    with pytest.raises(NotFound, match="no page"):
        source_run(name, Path("runs"))
