from __future__ import annotations

import json
import threading
from multiprocessing import get_context

import pytest

from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import DamagedFile
from palaestra.core.evaluation import EvaluationPlan, EvaluationReport
from palaestra.evaluation import summary
from palaestra.evaluation.summary import append_batch, describe, read_batches, read_newest_batch
from palaestra.runs.directory import RunDirectory
from palaestra.runs.files import MAX_JSON_BYTES

FILLING = {"text": "x" * 2000}  # so that a half-written file would be easy to catch


@pytest.fixture
def directory(tmp_path):
    return RunDirectory(tmp_path / "01J").make()


def test_batches_are_numbered_from_one_and_read_back_in_order(directory):
    assert [append_batch(directory, {"mean": float(index)}) for index in range(3)] == [1, 2, 3]
    assert read_batches(directory) == [{"batch": index + 1, "mean": float(index)} for index in range(3)]


def test_a_run_that_was_never_evaluated_has_no_batches(directory):
    assert read_batches(directory) == read_newest_batch(directory) == []


def test_the_newest_batch_is_read_without_the_others(directory, monkeypatch):
    odd = {"mean": float("nan"), "suite": 'naïve "x"\n]}\n'}
    for _ in range(3):
        append_batch(directory, odd)
    expected = read_batches(directory)[-1:]
    monkeypatch.setattr(summary, "read_batches", lambda _: pytest.fail("all of them were read"))
    assert read_newest_batch(directory) == expected == [{"batch": 3, **odd, "mean": "NaN"}]


@pytest.mark.parametrize("batches", ['[{"mean": 1.0}, {"mean": 2.0}]}', '[{"mean":\n2.0}\n  ]\n}\n'])
def test_the_newest_batch_of_a_summary_that_is_laid_out_otherwise_is_found_too(directory, batches):
    text = f'{{"schema_version": {summary.SCHEMA_VERSION}, "batches": {batches}'
    directory.eval_summary_file.write_text(text)
    assert read_newest_batch(directory) == [{"mean": 2.0}]


def test_a_newest_batch_that_is_longer_than_what_is_read_of_the_end_is_found_too(directory):
    append_batch(directory, {"mean": 1.0})
    append_batch(directory, {"text": "x" * summary.LAST_BYTES})
    assert read_newest_batch(directory) == [{"batch": 2, "text": "x" * summary.LAST_BYTES}]


def test_a_damaged_summary_has_no_newest_batch_either(directory):
    directory.eval_summary_file.write_text("torn" * 1000)
    with pytest.raises(DamagedFile, match=r"eval_summary\.json"):
        read_newest_batch(directory)


def test_an_entry_is_a_line_and_those_before_are_not_made_again(directory, monkeypatch):
    odd = {"mean": float("nan"), "suite": 'naïve "x"\n]}', "simulations": [{"std": 0.1 + 0.2}]}
    for _ in range(3):
        append_batch(directory, odd)
    made = []
    monkeypatch.setattr(summary, "_line", lambda batch: made.append(batch["batch"]) or json.dumps(batch))
    append_batch(directory, {"mean": 1.0})
    assert made == [4]
    lines = directory.eval_summary_file.read_text().splitlines()
    assert len([line for line in lines if '"batch": ' in line]) == 4
    *first, last = read_batches(directory)
    assert first == [{"batch": number, **odd, "mean": "NaN"} for number in (1, 2, 3)]
    assert last == {"batch": 4, "mean": 1.0}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_summary_that_is_laid_out_otherwise_is_taken_over(directory, indent):
    before = {"schema_version": 1, "run": directory.id, "batches": [{"batch": 1, "mean": 2.0}]}
    directory.eval_summary_file.write_text(json.dumps(before, indent=indent) + "\n")
    assert append_batch(directory, {"mean": 3.0}) == 2
    assert append_batch(directory, {"mean": 4.0}) == 3
    assert [batch["mean"] for batch in read_batches(directory)] == [2.0, 3.0, 4.0]


def test_ten_thousand_batches_can_still_be_read_and_added_to(directory):
    entry = {"checkpoint": "x" * 30, "simulations": [{"file": "y" * 1700}]}
    batches = [{"batch": number, **entry} for number in range(1, 10_001)]
    directory.eval_summary_file.write_text(json.dumps({"schema_version": 1, "run": directory.id, "batches": batches}))
    assert directory.eval_summary_file.stat().st_size > MAX_JSON_BYTES
    assert append_batch(directory, entry) == 10_001
    assert len(read_batches(directory)) == 10_001


@pytest.mark.fault("S6")
def test_a_reader_never_sees_half_a_file(directory, figure):
    """Trap S6: a reader reads whatever is there, again and again, while batches are added."""
    append_batch(directory, FILLING)
    done = threading.Event()
    lengths: list[int] = []
    errors: list[Exception] = []

    def read() -> None:
        while not done.is_set() or len(lengths) < 200:
            try:
                lengths.append(len(json.loads(directory.eval_summary_file.read_text())["batches"]))
            except (ValueError, OSError) as error:
                errors.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(60):
        append_batch(directory, FILLING)
    done.set()
    reader.join()
    assert errors == []
    assert lengths == sorted(lengths)
    figure("reads", len(lengths))
    assert len(set(lengths)) > 3, "the reader must have looked while it grew"


def add_some(path):
    for _ in range(15):
        append_batch(RunDirectory(path), FILLING)


@pytest.mark.fault("S6")
def test_two_evaluations_at_once_lose_nothing(directory):
    processes = [get_context("fork").Process(target=add_some, args=(directory.path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert [batch["batch"] for batch in read_batches(directory)] == list(range(1, 31))


@pytest.mark.parametrize("content", ["{", "[]", '{"schema_version": 1}', '{"schema_version": 99, "batches": []}'])
def test_a_summary_that_is_not_ours_is_refused_and_not_overwritten(directory, content):
    directory.eval_summary_file.write_text(content)
    with pytest.raises(DamagedFile):
        append_batch(directory, {})
    assert directory.eval_summary_file.read_text() == content


def test_the_figures_are_those_of_the_episodes():
    plan = EvaluationPlan("run:1", "CartPole-v1", {}, (0, 1))
    report = EvaluationReport(plan, tuple(EpisodeResult(0, value, 1, True) for value in (1.0, 3.0)), 2.5)
    assert describe(report) == {
        "episodes": 2,
        "avg": 2.0,
        "mean": 2.0,
        "min": 1.0,
        "max": 3.0,
        "std": 1.0,
        "seconds": 2.5,
        "capped": 0,
    }


def test_a_link_in_place_of_the_summary_is_not_followed(directory, tmp_path):
    """A run that somebody sent must not show, or have rewritten, what lies elsewhere."""
    elsewhere = RunDirectory(tmp_path / "02J").make()
    append_batch(elsewhere, {"mean": 1.0})
    before = elsewhere.eval_summary_file.read_bytes()
    directory.eval_summary_file.symlink_to(elsewhere.eval_summary_file)
    for check in (read_batches, read_newest_batch, lambda location: append_batch(location, {"mean": 2.0})):
        with pytest.raises(DamagedFile, match=r"eval_summary\.json"):
            check(directory)
    assert elsewhere.eval_summary_file.read_bytes() == before
