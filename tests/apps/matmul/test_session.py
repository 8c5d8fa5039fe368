from __future__ import annotations

import importlib.util
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from palaestra.apps.matmul import session as module
from palaestra.apps.matmul.agent.run import run_agent
from palaestra.apps.matmul.benchmark.cells import Cell
from palaestra.apps.matmul.benchmark.report import Benchmark, BenchStore
from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.discover import find_or_create_run
from palaestra.apps.matmul.schemes.archive import Archive, Provenance
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.run import run_flip_search
from palaestra.apps.matmul.session import ArchivedScheme, archive_scheme, benchmark_briefly, log_checkpoint, record_end
from palaestra.checkpoints.log import LOG_NAME, read_log
from palaestra.core.clock import SystemClock
from palaestra.core.errors import RunFailed, UsageError
from palaestra.loggers.fanout import LoggerFanout
from palaestra.runner.session import RunSession
from palaestra.runner.signals import StopNow
from palaestra.runs.directory import RunDirectory
from palaestra.runs.journal import read_journal


class Session:
    def __init__(self):
        self.recorded = []

    def finished(self):
        self.recorded.append("finished")

    def cancelled(self, reason, code):
        self.recorded.append(("cancelled", reason, code))

    def failed(self, error, code):
        self.recorded.append(("failed", str(error), code))


def recorded(number=None, error=None):
    """The calls of the session and the exception for a search that ends like this."""
    session = Session()
    try:
        with record_end(session, SimpleNamespace(signal=number)):
            if error is not None:
                raise error
    except BaseException as left:  # noqa: BLE001  also what is no Exception
        return session.recorded, type(left)
    return session.recorded, None


def test_a_completed_search_is_recorded_as_finished():
    assert recorded() == (["finished"], None)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_recorded_as_cancelled_with_exit_code_128_plus_n(number, code):
    assert recorded(number) == ([("cancelled", number.name, code)], None)


def test_a_second_signal_aborts():
    assert recorded(signal.SIGINT, StopNow(signal.SIGINT)) == ([("cancelled", "SIGINT", 130)], KeyboardInterrupt)


def test_exit_codes_of_errors_are_recorded():
    assert recorded(error=UsageError("no")) == ([("failed", "no", 2)], UsageError)
    assert recorded(error=MemoryError("none left")) == ([("failed", "none left", 1)], MemoryError)


_file = Path(__file__).parents[2] / "loggers" / "wandb" / "test_logger.py"
_spec = importlib.util.spec_from_file_location("wandb_tests", _file)
wandb_tests = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(wandb_tests)
fake = wandb_tests.fake  # a fixture: a fake W&B that records calls

WITH_WANDB = {"wandb": {"enabled": True, "upload_checkpoints": True, "grace_seconds": 60}}
TINY = {"width": 16, "batch": 32, "warmup": 3, "updates": 2, "simulations": 2, "children": 4, "device": "cpu"}


def timed_cells(entry, config, name, *, verbose, timeout):
    cell = Cell("int64", 256, "NumPy", 3.0, 1.0, 1, 3.0, 2.0, 1.5, "win", 1)
    run, software = entry.provenance["run"], {"blas": "b", "compiler": "c"}
    return Benchmark(
        name, entry.file.stem, "f", run, "2x2x2", "zt", 7, 15, 0.0, 1, {"cpu": "x"}, software, 6, (cell,), {}
    )


def hushed(_text):
    pass


def tables(fake, name):
    return [row for call in fake("log") for row in call["values"].get(f"tables/{name}", ())]


def test_wandb_gets_metrics_checkpoints_scheme_and_benchmark(workplace, fake, monkeypatch):
    monkeypatch.setattr(module, "benchmark_in_subprocess", timed_cells)
    config = DiscoverConfig(format="2x2x2", field="zt", seconds=5, polish=0.0, loggers=WITH_WANDB)
    directory = find_or_create_run(config, "first", "palaestra discover")
    result = run_flip_search(directory, config, hushed)
    (recorded,) = fake("init")
    assert recorded["given"]["id"] == directory.id
    ranks = [call["values"]["discover/best_rank"] for call in fake("log") if "discover/best_rank" in call["values"]]
    assert ranks[-1] == result.rank == 7
    (row,) = tables(fake, "benchmark")
    assert directory.id in row  # Source Run ID
    assert [row[-1] for row in tables(fake, "checkpoints")][-1] == "search"
    records = {call["name"]: call["files"] for call in fake("log_artifact")}
    assert records["fake-discovery"] == [Path(result.file).name]
    assert records["fake-checkpoint"] == ["search.json"]


@pytest.mark.usefixtures("one_thread")
def test_episodes_of_an_agent_are_logged_as_a_wandb_table(workplace, fake):
    config = DiscoverConfig(
        format="2x2x2", method="agent", agent=TINY, seconds=1e-9, target=0, bench=False, loggers=WITH_WANDB
    )
    directory = find_or_create_run(config, "first", "palaestra discover")
    said = []
    run_agent(lambda: directory, config, said.append)
    ((episode, reward, residual, rank),) = tables(fake, "episodes")
    assert said[0].startswith(f"Episode {episode} | Reward {reward:g} | Residual {residual:g} | Rank {rank:g} ")
    assert len(tables(fake, "checkpoints")) == 1


def test_a_wandb_failure_is_reported_and_does_not_change_the_search(workplace, fake, monkeypatch, capsys):
    monkeypatch.setenv("FAKE_WANDB", "raise:init")
    found = []
    for name, loggers in (("with", WITH_WANDB), ("without", {})):
        config = DiscoverConfig(format="2x2x3", seconds=30, loggers=loggers)
        directory = find_or_create_run(config, name, "palaestra discover")
        result = run_flip_search(directory, config, hushed)
        found.append((result.rank, result.flips, result.fingerprint))
        failed = [entry.data["sink"] for entry in read_journal(directory.journal_file) if entry.event == "sink.failed"]
        assert failed == (["wandb"] if name == "with" else [])
    assert found[0] == found[1]
    assert capsys.readouterr().err.count("Logger 'wandb' failed and is disabled") == 1


def test_csv_and_tensorboard_can_be_enabled(workplace):
    config = DiscoverConfig(format="2x2x2", seconds=5, loggers={"csv": True, "tensorboard": True})
    directory = find_or_create_run(config, "first", "palaestra discover")
    run_flip_search(directory, config, hushed)
    assert "discover/best_rank" in directory.metrics_csv_file.read_text().splitlines()[0]
    assert list(directory.tensorboard.iterdir())


def test_the_log_lists_all_checkpoints_and_marks_all_but_the_last_as_removed(tmp_path):
    numbers = [log_checkpoint(tmp_path, flips, flips / 10, "search.json") for flips in (100, 250)]
    assert numbers == [1, 2]
    entries = read_log(tmp_path)
    assert [(entry.epoch, entry.agent_step, entry.total_time, entry.removed) for entry in entries] == [
        (1, 100, 10.0, True),
        (2, 250, 25.0, False),
    ]
    assert {entry.file for entry in entries} == {"search.json"}


def test_a_damaged_log_is_replaced(tmp_path):
    (tmp_path / LOG_NAME).write_text("{")
    log_checkpoint(tmp_path, 1, 1.0, "search.json")
    assert len(read_log(tmp_path)) == 1


def test_the_log_is_limited_to_the_newest_entries(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_LOG_ENTRIES", 3)
    for flips in range(6):
        log_checkpoint(tmp_path, flips, 0.0, "search.json")
    assert [entry.agent_step for entry in read_log(tmp_path)] == [3, 4, 5]


ORIGIN = Provenance("01RUN", "flip", 1, 2, 3.0, 4.0, 5.0)


class ArchiveFolder:
    """A logger for files only."""

    name = "shelf"

    def __init__(self):
        self.files = []

    def files_made(self, name, kind, files):
        self.files.append((name, kind, [file.name for file in files]))

    def close(self):
        pass


@pytest.fixture
def archive_folder():
    return ArchiveFolder()


@pytest.fixture
def loggers(archive_folder):
    dropped = []
    made = LoggerFanout(lambda name, error: dropped.append((name, error)))
    made.add("shelf", lambda: archive_folder)
    yield made
    assert dropped == []


@pytest.fixture
def session(workplace):
    return RunSession(find_or_create_run(DiscoverConfig(), "first", "palaestra discover"), 0, SystemClock())


def test_a_discovery_is_archived_once_and_logged(strassen_bits, session, loggers, archive_folder):
    records = [archive_scheme(verify(strassen_bits), ORIGIN, session, loggers, bench=True) for _ in range(2)]
    assert [one.is_new for one in records] == [True, False]
    name = records[0].file.rpartition("/")[2]
    assert archive_folder.files == [("discovery", "algorithm", [name])] * 2


def test_the_benchmark_runs_only_if_requested(strassen, session, loggers, monkeypatch):
    monkeypatch.setattr(module, "benchmark_briefly", lambda *_: "fast")
    looks = [archive_scheme(verify(strassen), ORIGIN, session, loggers, bench=bench).note for bench in (True, False)]
    assert looks == ["fast", ""]


def test_a_scheme_of_naive_rank_is_not_archived(session, loggers, archive_folder):
    school = verify(naive_factorization(Format(2, 2, 2), Field.ZT))
    assert archive_scheme(school, ORIGIN, session, loggers, bench=True) == ArchivedScheme()
    assert archive_folder.files == []


class Tables:
    """A logger for tables only."""

    name = "tables"

    def __init__(self):
        self.records = []

    def table_made(self, name, columns, rows):
        self.records.append((name, columns, rows))


def loggers_with(logger=None):
    def fail(name, error):
        raise AssertionError(f"{name} was dropped: {error}")

    loggers = LoggerFanout(fail)
    if logger is not None:
        loggers.add(logger.name, lambda: logger)
    return loggers


class Notes:
    def __init__(self):
        self.records = []

    def record(self, event, *, level=None, **data):
        self.records.append((event, data))


def timed(entry, config, name, *, verbose, timeout):
    cell = Cell("int64", 256, "NumPy", 3.0, 1.0, 1, 3.0, 2.0, 1.5, "win", 1)
    software = {"blas": "b", "compiler": "c"}
    return Benchmark(
        name, entry.file.stem, "f", "01RUN", "2x2x2", "zt", 7, 15, 0.0, 1, {}, software, 6, (cell,), {"int64": 256}
    )


@pytest.fixture
def directory(tmp_path):
    return RunDirectory(tmp_path / "01RUN")


def test_the_brief_benchmark_is_stored_and_logged(strassen, directory, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "benchmark_in_subprocess", timed)
    entry, _ = Archive(tmp_path).add(verify(strassen), ORIGIN)
    notes, tables = Notes(), Tables()
    assert "int64 256: algorithm 1.50 x" in benchmark_briefly(entry, directory, notes, loggers_with(tables))
    assert len(BenchStore(tmp_path).of(entry.file.stem)) == 1
    assert [(event, data["kind"]) for event, data in notes.records] == [("artifact.saved", "benchmark")]
    ((name, columns, rows),) = tables.records
    assert name == "benchmark"
    assert dict(zip(columns, rows[0], strict=True))["Source Run ID"] == "01RUN"


def test_a_scheme_over_gf2_is_not_benchmarked(strassen_bits, directory, tmp_path):
    entry, _ = Archive(tmp_path).add(verify(strassen_bits), ORIGIN)
    assert benchmark_briefly(entry, directory, Notes(), loggers_with()) == ""


def test_a_failed_benchmark_becomes_a_note(strassen, directory, tmp_path, monkeypatch):
    def fail(*_given, **_more):
        raise RunFailed("no compiler")

    monkeypatch.setattr(module, "benchmark_in_subprocess", fail)
    entry, _ = Archive(tmp_path).add(verify(strassen), ORIGIN)
    assert "no compiler" in benchmark_briefly(entry, directory, Notes(), loggers_with())
