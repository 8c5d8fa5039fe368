from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from palaestra.apps.matmul.agent.run import REPRODUCED, finish_run, run_agent, verify_best
from palaestra.apps.matmul.agent.state import initial_progress, with_demonstrations
from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.discover import find_or_create_run
from palaestra.apps.matmul.schemes.bit_masks import to_masks
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.clock import SystemClock
from palaestra.core.errors import NotFound
from palaestra.core.run import RunState
from palaestra.loggers.fanout import LoggerFanout
from palaestra.runner.session import RunSession
from palaestra.runner.signals import StopRequest
from palaestra.runs.directory import RunDirectory
from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record

TINY = {"width": 16, "batch": 32, "warmup": 3, "updates": 2, "simulations": 2, "children": 4, "device": "cpu"}

pytestmark = pytest.mark.usefixtures("one_thread")


def run_episode(name, print_line=lambda _text: None, agent=TINY, **settings):
    config = DiscoverConfig(format="2x2x2", method="agent", agent=agent, **settings)
    directory = find_or_create_run(config, name, "palaestra discover")
    return directory, run_agent(lambda: directory, config, print_line)


def weights(directory):
    return CheckpointManager(directory).load_weights()[0]


def test_a_search_by_the_agent_is_a_run_with_metrics_and_status(workplace):
    lines = []
    directory, result = run_episode("first", lines.append, seconds=1e-9, target=0)
    record = read_record(directory)
    assert (record.state, record.kind, record.exit_code) == (RunState.FINISHED, "matmul", 0)
    assert (record.agent_step, result.unit) == (result.flips, "moves")
    events = [entry.event for entry in read_journal(directory.journal_file)]
    assert events[:2] == ["run.created", "run.started"]
    assert "checkpoint.saved" in events
    assert events[-1] == "run.finished"
    assert lines[0].startswith("Episode 1 | Reward -")
    with closing(MetricsReader(directory.metrics_file)) as metrics:
        (episode,) = metrics.episodes()
        assert set(episode.extras) == {"residual", "rank"}
        assert metrics.last("discover/rank").value == episode.extras["rank"]
        assert metrics.last("discover/reward").value == episode.total_reward


def test_a_resumed_run_equals_an_uninterrupted_one(workplace, monkeypatch):
    stopping = StopRequest()
    monkeypatch.setattr("palaestra.apps.matmul.agent.run.stop_on_signals", lambda: nullcontext(stopping))

    def stop_at_2(text):
        if text.startswith("Episode 2"):
            stopping.handle(signal.SIGTERM, None)  # the round after this one is the last

    straight, result = run_episode("straight", stop_at_2, seconds=200, target=0)
    assert (read_record(straight).epoch, read_record(straight).state) == (3, RunState.CANCELLED)
    assert result.exit_code == 143
    stopping.signal = None
    for _ in range(3):
        halting, again = run_episode("halting", seconds=1e-9, target=0)
    assert read_record(halting).epoch == 3
    assert again.flips == result.flips
    for name, part in weights(straight).items():
        assert torch.equal(part, weights(halting)[name])
    with closing(MetricsReader(straight.metrics_file)) as first, closing(MetricsReader(halting.metrics_file)) as second:
        assert first.series("discover/value_loss") == second.series("discover/value_loss")
        assert first.episodes() == second.episodes()


@pytest.mark.slow
def test_the_agent_finds_rank_7_for_2x2x2(workplace):
    _, result = run_episode("first", seconds=120, agent={"device": "cpu", "warmup": 200})
    assert (result.rank, result.field, result.known) == (7, "gf2", 7)
    assert result.file


def test_demonstrations_from_an_empty_archive_are_refused(workplace):
    with pytest.raises(NotFound, match="No archived scheme for 2x2x2"):
        run_episode("first", agent={**TINY, "demonstrations": "schemes"})


@pytest.mark.full
def test_a_signal_ends_the_round_and_saves(workplace):
    words = ["discover", "2x2x2", "method=agent", "target=0", "run=long", "seconds=200", "agent.warmup=1"]
    command = [sys.executable, "-m", "palaestra", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr.readline().startswith("Episode 1")
        os.kill(process.pid, signal.SIGTERM)
        process.stderr.read()
        assert process.wait() == 143
    run = workplace / "runs" / "by-name" / "long"
    assert list((run / "checkpoints").glob("model_*.safetensors"))


@pytest.mark.full
def test_two_processes_train_and_resume_together(workplace):
    words = ["discover", "2x2x2", "method=agent", "target=0", "run=both", "seconds=1e-9", "agent.warmup=2"]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    for _ in range(2):
        subprocess.run([*launcher, "-m", "palaestra", *words], check=True, capture_output=True, text=True)
    run = RunDirectory((workplace / "runs" / "by-name" / "both").resolve())
    entries = {entry.event: entry.data for entry in read_journal(run.journal_file)}
    assert entries["run.started"]["world_size"] == 2
    assert entries["run.resumed"]["exact"]
    assert read_record(run).epoch == 2
    with closing(MetricsReader(run.metrics_file)) as metrics:
        assert sorted(episode.env_index for episode in metrics.episodes()) == [0, 0, 1, 1]


@pytest.fixture
def found(strassen_bits):
    return replace(initial_progress(DiscoverConfig(method="agent")), pool=(to_masks(strassen_bits),), found_by="agent")


def nobody():
    """No logger is open."""
    return LoggerFanout(lambda name, error: None)


def finished(progress, **settings):
    config = DiscoverConfig(method="agent", bench=False, **settings)
    session = RunSession(find_or_create_run(config, "first", "palaestra discover"), 0, SystemClock())
    return finish_run(progress, config, session, nobody(), 21, 0)


def provenance(result):
    return json.loads(Path(result.file).read_text())["provenance"]


def test_a_result_without_demonstrations_is_discovered(workplace, found):
    result = finished(found)
    assert (result.rank, result.flips, result.unit, result.note) == (7, 21, "moves", "")
    archived = provenance(result)
    assert (archived["method"], archived["origin"], archived["demonstrations"]) == ("agent", "discovered", [])


def test_a_result_of_a_shown_rank_is_reproduced_with_a_note(workplace, found):
    result = finished(with_demonstrations(found, ["2x2x2-gf2-r7-abc"], [7]))
    assert result.note == REPRODUCED
    assert (provenance(result)["origin"], provenance(result)["demonstrations"]) == (
        "reproduced",
        ["2x2x2-gf2-r7-abc"],
    )


def test_an_integer_field_lifts_the_result(workplace, found):
    result = finished(found, field="z")
    assert (result.field, result.rank, result.note) == ("zt", 7, "")  # the strictest valid field
    assert provenance(result)["method"] == "agent and lift"


def test_the_naive_scheme_is_not_archived(workplace):
    result = finished(initial_progress(DiscoverConfig(method="agent")))
    assert (result.rank, result.file) == (8, "")
    assert verify_best(initial_progress(DiscoverConfig()), DiscoverConfig()).field is Field.GF2


def test_a_scheme_over_zt_is_benchmarked_unless_disabled(workplace, found, monkeypatch):
    timed = []
    monkeypatch.setattr(
        "palaestra.apps.matmul.session.benchmark_briefly", lambda entry, *_: timed.append(entry) or "fast"
    )
    config = DiscoverConfig(method="agent", field="zt")
    session = RunSession(find_or_create_run(config, "first", "palaestra discover"), 0, SystemClock())
    assert finish_run(found, config, session, nobody(), 21, 0).note == "fast"
    assert [str(entry.file) for entry in timed] == [finish_run(found, config, session, nobody(), 21, 143).file]
