"""What W&B hears of a search; the stand-in for W&B is the one of the sinks' own tests."""

import importlib.util
from pathlib import Path

import pytest

from palaestra.apps.matmul import first_look
from palaestra.apps.matmul.agent_run import run_agent
from palaestra.apps.matmul.bench_cells import Cell
from palaestra.apps.matmul.bench_report import Benchmark
from palaestra.apps.matmul.discover_config import DiscoverConfig
from palaestra.apps.matmul.discovering import find_or_make
from palaestra.apps.matmul.discovery_run import run_discovery
from palaestra.runs.journal import read_journal

_file = Path(__file__).parents[2] / "loggers" / "test_wandb.py"
_spec = importlib.util.spec_from_file_location("wandb_tests", _file)
wandb_tests = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(wandb_tests)
fake = wandb_tests.fake  # a fixture: a fake W&B, and what it was told

WITH_WANDB = {"wandb": {"enabled": True, "upload_checkpoints": True, "grace_seconds": 60}}
TINY = {"width": 16, "batch": 32, "warmup": 3, "updates": 2, "simulations": 2, "children": 4, "device": "cpu"}


def timed_cells(entry, config, name, *, aloud, timeout):
    cell = Cell("int64", 256, "NumPy", 3.0, 1.0, 1, 3.0, 2.0, 1.5, "win", 1)
    run, software = entry.provenance["run"], {"blas": "b", "compiler": "c"}
    return Benchmark(
        name, entry.file.stem, "f", run, "2x2x2", "zt", 7, 15, 0.0, 1, {"cpu": "x"}, software, 6, (cell,), {}
    )


def hushed(_text):
    pass


def tables(fake, name):
    return [row for call in fake("log") for row in call["values"].get(f"tables/{name}", ())]


def test_wandb_hears_of_figures_checkpoints_the_scheme_and_its_benchmark(workplace, fake, monkeypatch):
    monkeypatch.setattr(first_look, "benchmark_apart", timed_cells)
    config = DiscoverConfig(format="2x2x2", field="zt", seconds=5, polish=0.0, sinks=WITH_WANDB)
    directory = find_or_make(config, "first", "palaestra discover")
    outcome = run_discovery(directory, config, hushed)
    (told,) = fake("init")
    assert told["given"]["id"] == directory.id
    ranks = [call["values"]["discover/best_rank"] for call in fake("log") if "discover/best_rank" in call["values"]]
    assert ranks[-1] == outcome.rank == 7
    (row,) = tables(fake, "benchmark")
    assert directory.id in row  # Source Run ID
    assert [row[-1] for row in tables(fake, "checkpoints")][-1] == "search"
    kept = {call["name"]: call["files"] for call in fake("log_artifact")}
    assert kept["fake-discovery"] == [Path(outcome.file).name]
    assert kept["fake-checkpoint"] == ["search.json"]


@pytest.mark.usefixtures("one_thread")
def test_an_agents_episodes_become_the_table_of_episodes(workplace, fake):
    config = DiscoverConfig(
        format="2x2x2", method="agent", agent=TINY, seconds=1e-9, target=0, bench=False, sinks=WITH_WANDB
    )
    directory = find_or_make(config, "first", "palaestra discover")
    said = []
    run_agent(lambda: directory, config, said.append)
    ((episode, reward, residual, rank),) = tables(fake, "episodes")
    assert said[0].startswith(f"Episode {episode} | Reward {reward:g} | Residual {residual:g} | Rank {rank:g} ")
    assert len(tables(fake, "checkpoints")) == 1


def test_a_wandb_that_fails_is_named_on_stderr_and_the_search_finds_the_same(workplace, fake, monkeypatch, capsys):
    monkeypatch.setenv("FAKE_WANDB", "raise:init")
    found = []
    for name, sinks in (("with", WITH_WANDB), ("without", {})):
        config = DiscoverConfig(format="2x2x3", seconds=30, sinks=sinks)
        directory = find_or_make(config, name, "palaestra discover")
        outcome = run_discovery(directory, config, hushed)
        found.append((outcome.rank, outcome.flips, outcome.fingerprint))
        failed = [entry.data["sink"] for entry in read_journal(directory.journal_file) if entry.event == "sink.failed"]
        assert failed == (["wandb"] if name == "with" else [])
    assert found[0] == found[1]
    assert capsys.readouterr().err.count("The sink 'wandb' is no longer used") == 1


def test_other_sinks_are_chosen_by_name(workplace):
    config = DiscoverConfig(format="2x2x2", seconds=5, sinks={"csv": True, "tensorboard": True})
    directory = find_or_make(config, "first", "palaestra discover")
    run_discovery(directory, config, hushed)
    assert "discover/best_rank" in directory.metrics_csv_file.read_text().splitlines()[0]
    assert list(directory.tensorboard.iterdir())
