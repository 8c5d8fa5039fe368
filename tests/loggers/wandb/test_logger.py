"""W&B may be absent, raise, hang or kill its process: the trainer stays fast and hears of it exactly once."""

from __future__ import annotations

import importlib.machinery
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from textwrap import dedent
from typing import TYPE_CHECKING

import psutil
import pytest

from palaestra.config.loggers import WandbConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import MissingExtra, RunFailed
from palaestra.core.metrics_logger import Sample
from palaestra.loggers.fanout import LoggerFanout
from palaestra.loggers.wandb import logger as wandb_logger
from palaestra.loggers.wandb.logger import WandbLogger, wandb_is_installed

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_SECONDS = 60.0  # far beyond what anything here takes, also on a busy machine
FAKE = '''
"""Stands in for W&B: writes down what it is told, and misbehaves where FAKE_WANDB says."""
import atexit, json, os, time

def _act(where, **said):
    with open(os.environ["FAKE_WANDB_LOG"], "a") as log:
        log.write(json.dumps({"call": where, **said}, default=str) + "\\n")
    how, _, place = os.environ.get("FAKE_WANDB", "").partition(":")
    if place == where:
        if how == "linger":
            atexit.register(time.sleep, 600)
        if how in ("raise", "linger"):
            raise RuntimeError("no luck in " + where)
        if how == "hang":
            time.sleep(600)
        if how == "exit":
            os._exit(7)

class Table:
    def __init__(self, columns, log_mode, allow_mixed_types):
        self.columns, self.rows = columns, []
    def add_data(self, *row):
        self.rows.append(row)

class Artifact:
    def __init__(self, name, type, metadata):
        self.name, self.files = name, []
    def add_file(self, path, name):
        self.files.append(name)

class Run:
    id = "fake"
    dir = os.environ["FAKE_WANDB_LOG"] + ".files"
    def define_metric(self, name, step_metric=None):
        _act("define_metric", name=name, step_metric=step_metric)
    def log(self, values):
        _act("log", values={k: v.rows if isinstance(v, Table) else v for k, v in values.items()})
    def save(self, path, base_path, policy):
        _act("save", path=os.path.relpath(path, base_path), size=os.path.getsize(path))
    def log_artifact(self, artifact, aliases):
        _act("log_artifact", name=artifact.name, files=artifact.files, aliases=aliases)
    def finish(self):
        _act("finish")

def init(**given):
    _act("init", given=given)
    os.makedirs(Run.dir, exist_ok=True)
    return Run()
'''


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A directory with a fake `wandb`, first on everybody's path, and a way to read what it was told."""
    package = tmp_path / "fake" / "wandb"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(FAKE)
    log = tmp_path / "fake.jsonl"
    monkeypatch.setenv("PYTHONPATH", str(package.parent), prepend=os.pathsep)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("FAKE_WANDB_LOG", str(log))
    monkeypatch.setenv("HOME", str(tmp_path))  # no key of whoever runs the tests
    for name in [name for name in os.environ if name.startswith("WANDB_")] + ["NETRC"]:
        monkeypatch.delenv(name, raising=False)

    def calls(which: str) -> list[dict]:
        lines = log.read_text().splitlines() if log.exists() else []
        return [call for call in map(json.loads, lines) if call["call"] == which]

    return calls


def sent_steps(fake) -> list[int]:
    return [call["values"]["global_step"] for call in fake("log") if "global_step" in call["values"]]


def open_logger(run, settings=None, **config) -> WandbLogger:
    return WandbLogger(WandbConfig(enabled=True, **config), run, "first", settings or {})


def checkpoint_of(directory: Path, epoch: int, step: int) -> Checkpoint:
    sidecar, weights = directory / f"model_{epoch:04d}.yaml", directory / f"model_{epoch:04d}.safetensors"
    sidecar.write_text("sidecar")
    weights.write_bytes(b"weights")
    return Checkpoint(
        epoch, step, 12.5, "id", "first", 0.0, policy={}, env={}, interface={}, files={weights.name: {}}, path=sidecar
    )


def test_everything_arrives_in_order_with_the_step_as_x_axis(fake, run, samples):
    logger = open_logger(run, settings={"seed": 3}, project="p", entity="team", group="g", tags=("a", "b"))
    for sample in samples:
        logger.write(sample)
    logger.close()
    given = fake("init")[0]["given"]
    assert (given["id"], given["resume"], given["mode"]) == (run.id, "allow", "offline")
    assert (given["project"], given["entity"], given["group"], given["tags"]) == ("p", "team", "g", ["a", "b"])
    assert given["config"] == {"seed": 3}
    assert fake("define_metric")[1]["step_metric"] == "global_step"
    assert sent_steps(fake) == [sample.step for sample in samples]
    assert fake("log")[2]["values"]["losses/value_loss"] == 12.5
    assert len(fake("finish")) == 1


def test_episodes_are_numbered_rows_of_one_cumulative_table(fake, run, samples):
    logger = open_logger(run)
    for sample in samples:
        logger.write(sample)
    logger.close()
    (table,) = [call["values"]["tables/episodes"] for call in fake("log") if "tables/episodes" in call["values"]]
    returns = [episode.total_reward for sample in samples for episode in sample.episodes]
    assert table == [[number, total, None, None] for number, total in enumerate(returns, start=1)]


def test_a_resumed_run_sends_no_point_episode_or_checkpoint_twice(fake, run, samples):
    for first, last in ((0, 6), (3, 10)):  # killed after six iterations, resumed from the checkpoint after three
        logger = open_logger(run, upload_checkpoints=True)
        for number in range(first, last):
            logger.write(samples[number])
            if number in (2, 4, 8):
                logger.checkpoint_saved(checkpoint_of(run.checkpoints, number + 1, samples[number].step))
        logger.close()
    assert sent_steps(fake) == [sample.step for sample in samples]
    episodes = [row for call in fake("log") for row in call["values"].get("tables/episodes", ())]
    assert [row[0] for row in episodes] == list(range(1, 21))
    checkpoints = [row for call in fake("log") for row in call["values"].get("tables/checkpoints", ())]
    assert [row[1] for row in checkpoints] == [samples[number].step for number in (2, 4, 8)]
    assert [call["aliases"][1] for call in fake("log_artifact")] == ["epoch-3", "epoch-5", "epoch-9"]


def test_an_evaluation_that_comes_late_is_sent_and_after_a_resume_exactly_once(fake, run, samples):
    """Its step was passed long before; the session before the resume sent that of step 512, and not that of 1024."""
    evaluated = {step: Sample(step, {"eval/episodic_return": float(step)}) for step in (512, 1024, 1536)}
    for written in ([*samples[:4], evaluated[512]], [evaluated[512], evaluated[1024], *samples[3:5], evaluated[1536]]):
        logger = open_logger(run)
        for sample in written:
            logger.write(sample)
        logger.close()
    assert sent_steps(fake) == [512, 1024, 1536, 2048, 512, 1024, 2560, 1536]


def test_checkpoint_files_go_to_files_and_to_an_artifact_when_requested(fake, run):
    logger = open_logger(run, upload_checkpoints=True)
    logger.checkpoint_saved(checkpoint_of(run.checkpoints, 10, 5120))
    logger.close()
    names = ["model_0010.yaml", "model_0010.safetensors"]
    assert [(call["path"], call["size"]) for call in fake("save")] == [(f"checkpoints/{name}", 7) for name in names]
    assert fake("log_artifact")[0]["files"] == names
    (row,) = next(call["values"]["tables/checkpoints"] for call in fake("log"))
    assert row == [0, 5120, 12.5, "model_0010"]


def test_checkpoint_files_stay_here_when_not_requested(fake, run):
    logger = open_logger(run)
    logger.checkpoint_saved(checkpoint_of(run.checkpoints, 10, 5120))
    logger.close()
    assert fake("save") == fake("log_artifact") == []
    assert len(fake("log")) == 1


def test_tables_and_files_arrive_under_their_names(fake, run, tmp_path):
    scheme = tmp_path / "scheme.json"
    scheme.write_text("{}")
    logger = open_logger(run)
    logger.table_made("benchmark", ("Source Run ID", "ms"), [("01RUN", 3.5), ("01RUN", None)])
    logger.files_made("discovery", "algorithm", [scheme, tmp_path / "gone.json"])
    logger.close()
    assert [call["values"] for call in fake("log")] == [{"tables/benchmark": [["01RUN", 3.5], ["01RUN", None]]}]
    (stored,) = fake("log_artifact")
    assert (stored["name"], stored["files"], stored["aliases"]) == ("fake-discovery", ["scheme.json"], ["latest"])
    assert [call["path"] for call in fake("save")] == ["algorithm/scheme.json"]


def write_until_dropped_or(fanout: LoggerFanout, dropped: list, samples, deadline_seconds: float) -> list[float]:
    """Write at a trainer's pace until the logger is dropped or time is up; seconds that each write waited."""
    seconds = []
    end = time.monotonic() + deadline_seconds
    while not dropped and time.monotonic() < end:
        for sample in samples:
            before, sleeps = time.perf_counter(), count_sleeps()
            fanout.write(sample)
            waited = time.perf_counter() - before if count_sleeps() > sleeps else 0.0
            seconds.append(waited)
        time.sleep(0.01)
    return seconds


def count_sleeps() -> int:
    """How often this thread has waited for something; a core that others took away is not counted."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


@pytest.mark.fault("S1", "S2", "S3")
@pytest.mark.parametrize("place", ["init", "log", "finish"])
@pytest.mark.parametrize("how", ["raise", "hang", "exit"])
def test_whatever_wandb_does_the_trainer_receives_of_it_once_and_is_never_held_up(
    fake, run, samples, monkeypatch, how, place
):
    monkeypatch.setenv("FAKE_WANDB", f"{how}:{place}")
    dropped: list[str] = []
    fanout = LoggerFanout(lambda name, error: dropped.append(f"{name}: {error}"))
    fanout.add("wandb", lambda: open_logger(run, grace_seconds=0.5 if how == "hang" else TIMEOUT_SECONDS))
    is_noticed_while_writing = how != "hang" and place != "finish"
    seconds = write_until_dropped_or(fanout, dropped, samples, TIMEOUT_SECONDS if is_noticed_while_writing else 0.5)
    assert len(dropped) == int(is_noticed_while_writing)
    before = time.monotonic()
    fanout.close()
    assert time.monotonic() - before < TIMEOUT_SECONDS, "what hangs does so for ten minutes"
    (reported,) = dropped
    expected = {"raise": f"no luck in {place}", "hang": "did not finish within 0.5 s", "exit": "exit code 7"}[how]
    assert expected in reported
    assert "wandb.log" in reported
    *seconds, last = seconds
    assert max(seconds, default=0.0) < 0.4  # a write that waited for W&B would have taken at least its grace
    assert last < TIMEOUT_SECONDS / 2  # the one that noticed has ended the process, and gave it no grace


def test_a_wandb_that_gave_up_but_lingers_is_ended_without_grace(fake, run, samples, monkeypatch):
    monkeypatch.setenv("FAKE_WANDB", "linger:init")
    dropped: list[str] = []
    fanout = LoggerFanout(lambda name, error: dropped.append(str(error)))
    fanout.add("wandb", lambda: open_logger(run, grace_seconds=TIMEOUT_SECONDS))
    seconds = write_until_dropped_or(fanout, dropped, samples, TIMEOUT_SECONDS)
    (reported,) = dropped
    assert "no luck in init" in reported
    assert max(seconds) < TIMEOUT_SECONDS / 2


@pytest.mark.fault("S2")
def test_messages_that_nobody_reads_are_dropped_and_counted_and_memory_is_bounded(fake, run, samples, monkeypatch):
    other_ends = []

    def never_reads(arguments, **options):
        other_ends.append(os.dup(options["pass_fds"][0]))
        return subprocess_popen([sys.executable, "-c", "import time; time.sleep(600)"], **options)

    monkeypatch.setattr("palaestra.loggers.wandb.logger.BACKLOG_MESSAGES", 50)
    monkeypatch.setattr("palaestra.loggers.wandb.logger.SEND_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr("palaestra.loggers.wandb.logger.subprocess.Popen", never_reads)
    logger = open_logger(run, grace_seconds=0.0)
    for _ in range(300):
        for sample in samples:
            logger.write(sample)
    assert len(logger._backlog) == 50
    with socket.socket(fileno=other_ends[0]) as other_end:
        delivered = count_waiting(other_end)
    assert logger.dropped_count > 1000
    assert delivered + 50 + logger.dropped_count == 1 + 2 * 300 * len(samples)  # the start, and two for every sample
    with pytest.raises(RunFailed):
        logger.close()


def test_samples_are_handed_over_together_and_with_whatever_follows_them(fake, run, samples, monkeypatch):
    monkeypatch.setattr("palaestra.loggers.wandb.logger.SEND_INTERVAL_SECONDS", 3600.0)
    logger = open_logger(run)
    sent = []
    monkeypatch.setattr(logger, "_send", lambda message: sent.append(message["kind"]))
    for sample in samples[:3]:  # the first at once: whoever is gone already is noticed
        logger.write(sample)
    assert sent == ["episodes", "samples"]
    logger.checkpoint_saved(checkpoint_of(run.checkpoints, 3, samples[2].step))
    assert sent == ["episodes", "samples", "episodes", "samples", "checkpoint"]
    logger.write(samples[3])
    logger.close()
    assert sent[5:] == ["episodes", "samples"]


def count_waiting(connection: socket.socket) -> int:
    connection.settimeout(0.0)
    count = 0
    with suppress(BlockingIOError):
        while connection.recv(1 << 20):
            count += 1
    return count


subprocess_popen = subprocess.Popen


def test_a_child_that_ignores_sigterm_is_killed(run, monkeypatch, fake):
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    monkeypatch.setattr(
        "palaestra.loggers.wandb.logger.subprocess.Popen",
        lambda arguments, **options: subprocess_popen([sys.executable, "-c", stubborn], **options),
    )
    logger = open_logger(run, grace_seconds=0.0)
    while not (run.logs / "wandb.log").stat().st_size:  # until it has said that it ignores the signal
        time.sleep(0.01)
    with pytest.raises(RunFailed, match="did not finish"):
        logger.close()
    assert logger._process.returncode == -signal.SIGKILL


def test_without_the_package_the_extra_is_named_and_the_run_goes_on(run, samples, monkeypatch):
    monkeypatch.setattr(wandb_logger, "find_spec", lambda name: None)
    dropped: list[Exception] = []
    fanout = LoggerFanout(lambda name, error: dropped.append(error))
    fanout.add("wandb", lambda: open_logger(run))
    fanout.write(samples[0])
    fanout.close()
    (error,) = dropped
    assert isinstance(error, MissingExtra)
    assert "palaestra[wandb]" in str(error)


def test_a_directory_that_wandb_left_behind_is_not_the_package(monkeypatch):
    leftover = importlib.machinery.ModuleSpec("wandb", None, is_package=True)
    monkeypatch.setattr(wandb_logger, "find_spec", lambda name: leftover)
    assert not wandb_is_installed()


@pytest.mark.fault("S3")
def test_no_process_stays_when_the_trainer_is_killed(fake, run, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_WANDB", "hang:init")
    trainer = dedent(f"""
        import sys, time
        from pathlib import Path
        from palaestra.config.loggers import WandbConfig
        from palaestra.runs.directory import RunDirectory
        from palaestra.loggers.wandb.logger import WandbLogger
        logger = WandbLogger(WandbConfig(enabled=True), RunDirectory(Path({str(run.path)!r})), "first", {{}})
        print(logger._process.pid, flush=True)
        time.sleep(600)
    """)
    with subprocess.Popen([sys.executable, "-c", trainer], stdout=subprocess.PIPE, text=True) as process:
        child = psutil.Process(int(process.stdout.readline()))
        while not fake("init"):  # it is up, and hangs
            time.sleep(0.01)
        process.kill()
        psutil.wait_procs([child], timeout=TIMEOUT_SECONDS)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_the_real_wandb_writes_an_offline_run(run, samples, monkeypatch, tmp_path):
    pytest.importorskip("wandb", exc_type=ImportError)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("HOME", str(tmp_path))
    logger = open_logger(run, settings={"ppo": {"gamma": 0.99}}, grace_seconds=60.0, upload_checkpoints=True)
    for sample in samples:
        logger.write(sample)
    logger.checkpoint_saved(checkpoint_of(run.checkpoints, 10, 5120))
    logger.close()
    (directory,) = (run.path / "wandb").glob(f"offline-run-*-{run.id}")
    assert (directory / f"run-{run.id}.wandb").stat().st_size > 1000
    assert (directory / "files" / "checkpoints" / "model_0010.safetensors").read_bytes() == b"weights"
    assert list((directory / "files" / "media" / "table" / "tables").glob("episodes_*.table.json"))
