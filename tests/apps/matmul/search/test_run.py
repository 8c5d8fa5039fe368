import json
import math
import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.discover import find_or_create_run
from palaestra.apps.matmul.schemes.archive import Archive, Provenance
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.rings import can_convert
from palaestra.apps.matmul.schemes.scheme_files import encode_scheme
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search import ladder
from palaestra.apps.matmul.search.ladder import start_ladder
from palaestra.apps.matmul.search.lifting import LiftTimeout, lift
from palaestra.apps.matmul.search.run import checkpoint_file, finishing_seconds, run_flip_search
from palaestra.core.errors import DamagedFile
from palaestra.core.run import RunState
from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record


def run_search(name, **settings):
    config = DiscoverConfig(format="2x2x2", **settings)
    directory = find_or_create_run(config, name, "palaestra discover")
    return directory, run_flip_search(directory, config, lambda _text: None)


def test_a_search_is_a_run_with_metrics_and_status(workplace):
    directory, result = run_search("first", seconds=5)
    record = read_record(directory)
    assert (record.state, record.kind, record.exit_code) == (RunState.FINISHED, "matmul", 0)
    assert record.agent_step == result.flips
    events = [entry.event for entry in read_journal(directory.journal_file)]
    assert events[:2] == ["run.created", "run.started"]
    assert events[-2:] == ["artifact.saved", "run.finished"]
    with closing(MetricsReader(directory.metrics_file)) as metrics:
        assert metrics.last("discover/best_rank").value == 7


def test_a_resumed_run_starts_at_its_checkpoint(workplace):
    directory, first = run_search("first", seconds=1e-9, target=0, round_flips=1000)
    _, second = run_search("first", seconds=1e-9, target=0, round_flips=1000)
    assert second.flips > first.flips
    resumed = next(entry for entry in read_journal(directory.journal_file) if entry.event == "run.resumed")
    assert resumed.data["step"] == first.flips
    assert resumed.data["exact"]


def test_a_damaged_checkpoint_fails_the_run(workplace):
    directory, _ = run_search("first", seconds=5)
    checkpoint_file(directory).write_text("{")
    with pytest.raises(DamagedFile):
        run_search("first", seconds=5)
    assert read_record(directory).state is RunState.FAILED


def test_a_signal_ends_the_round_saves_and_archives(workplace):
    words = [sys.executable, "-m", "palaestra", "discover", "3x3x3", "target=0", "run=long", "seconds=200"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr.readline().startswith("rank ")
        os.kill(process.pid, signal.SIGTERM)
        process.stderr.read()
        assert process.wait() == 143
    run = workplace / "runs" / "by-name" / "long"
    assert json.loads((run / "status.json").read_text())["state"] == "cancelled"
    assert (run / "checkpoints" / "search.json").exists()
    assert list((workplace / "runs" / "discoveries").glob("3x3x3-gf2-*.json"))


def test_a_search_can_start_from_the_archive(workplace):
    _, first = run_search("first", seconds=5)
    config = DiscoverConfig(format="2x2x4", start="archive", seconds=5)
    directory = find_or_create_run(config, "second", "palaestra discover")
    result = run_flip_search(directory, config, lambda _text: None)
    assert (result.rank, result.flips) == (14, 0)  # the best known rank
    assert json.loads(Path(result.file).read_text())["provenance"]["parents"] == [first.fingerprint]


def test_an_archived_start_counts_even_if_its_bits_do_not_lift(workplace, monkeypatch, strassen):
    archive = Archive(workplace / "runs")
    archive.add(verify(strassen), Provenance("", "brought in", 0, 0, 0.0, 0.0, 0.0))
    monkeypatch.setattr(ladder, "lift", lambda proved, deadline, **_: None)
    monkeypatch.setattr(ladder, "_LIFTED", {})
    directory, result = run_search("first", field="zt", start="archive", target=7, seconds=5, bench=False, polish=0)
    assert (result.rank, result.field) == (7, "zt")
    assert read_record(directory).state is RunState.FINISHED


def test_a_lift_timeout_leaves_the_search_unchanged(workplace, monkeypatch):
    def late(proved, deadline, **_):
        if deadline == math.inf:
            return lift(proved)
        raise LiftTimeout

    monkeypatch.setattr(ladder, "lift", late)
    monkeypatch.setattr(ladder, "_LIFTED", {})
    _, result = run_search("first", field="zt", start="naive", seconds=3, target=7, bench=False)
    assert (result.rank, result.exit_code) == (8, 0)
    monkeypatch.undo()
    _, second = run_search("first", field="zt", start="naive", seconds=30, target=7, bench=False)
    assert second.rank == 7


@pytest.mark.parametrize(("field", "polish", "share"), [("gf2", 5.0, 0.005), ("zt", 5.0, 0.25)])
def test_a_session_reserves_time_for_its_end(field, polish, share):
    config = DiscoverConfig(format="3x3x3", field=field, seconds=40.0, polish=polish)
    begun = start_ladder((config.product,), Field(field), 1, 1)
    assert finishing_seconds(begun, config) < 0.02 * 40  # no additions to reduce, no benchmark
    found = replace(begun, best=begun.best[:23])
    assert share * 40 <= finishing_seconds(found, config) <= 0.3 * 40


def test_the_naive_scheme_is_not_archived(workplace):
    directory, result = run_search("first", round_flips=1, seconds=1e-9)
    assert (result.rank, result.flips, result.file) == (8, 1, "")
    assert not (workplace / "runs" / "discoveries").exists()
    assert read_record(directory).state is RunState.FINISHED


@pytest.mark.slow
def test_a_tensor_product_of_discoveries_is_found_without_a_flip(workplace):
    run_search("first", field="zt", seconds=5, bench=False, polish=0.5)
    config = DiscoverConfig(format="4x4x4", field="zt", seconds=1e-9, round_flips=1, bench=False, polish=0.1)
    directory = find_or_create_run(config, "second", "palaestra discover")
    result = run_flip_search(directory, config, lambda _text: None)
    assert (result.rank, result.comparison) == (49, "matches")
    log = json.loads((directory.checkpoints / "checkpoint_log.json").read_text())
    assert log["checkpoints"][-1]["agent_step"] == result.flips


def test_a_search_can_start_from_a_file(strassen, workplace):
    """The file's scheme has the target rank already; it is archived with its fingerprint as parent."""
    (workplace / "s.json").write_text(json.dumps(encode_scheme(strassen)))
    _, result = run_search("first", field="zt", start="s.json", seconds=5, bench=False, polish=0)
    assert (result.rank, result.field, result.flips) == (7, "zt", 0)
    (workplace / "s.json").unlink()
    assert run_search("first", field="zt", start="s.json", seconds=5, bench=False, polish=0)[1].rank == 7


@pytest.mark.parametrize(("field", "walk"), [("z3", "auto"), ("q", "auto"), ("zt", "zt"), ("z", "z3"), ("q", "zt")])
def test_every_field_and_walk_finds_a_valid_scheme(field, walk, workplace):
    _, result = run_search("first", field=field, walk=walk, seconds=20, bench=False, polish=0)
    assert result.rank == 7
    proved = Archive(Path("runs")).read(Path(result.file)).scheme
    assert can_convert(proved.claim, Field(field))
