from __future__ import annotations

import csv

import pytest

from palaestra.core.metrics_logger import Sample
from palaestra.loggers.csv import CsvLogger


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_all(path, samples, rewind=None):
    logger = CsvLogger(path)
    if rewind is not None:
        logger.rewind(rewind)
    for sample in samples:
        logger.write(sample)
    logger.close()


def test_one_row_per_sample_with_numbers_that_read_back_exactly(tmp_path, samples):
    path = tmp_path / "metrics.csv"
    write_all(path, samples)
    rows = rows_of(path)
    for row, sample in zip(rows, samples, strict=True):
        expected = {"step": sample.step, "at": sample.at, **sample.metrics, **sample.timings}
        assert {name: float(cell) for name, cell in row.items()} == expected


def test_a_new_metric_adds_a_column_and_older_rows_stay_empty_there(tmp_path):
    path = tmp_path / "metrics.csv"
    write_all(path, [Sample(1, {"a": 0.0}), Sample(2, {"b": 2.0}), Sample(3, {"a": 3.0, "b": 4.0})])
    assert [(row["step"], row["a"], row["b"]) for row in rows_of(path)] == [
        ("1", "0.0", ""),
        ("2", "", "2.0"),
        ("3", "3.0", "4.0"),
    ]


def test_a_name_with_a_comma_or_a_quote_stays_one_column(tmp_path):
    path = tmp_path / "metrics.csv"
    write_all(path, [Sample(1, {'odd, "name"': 1.5})])
    assert rows_of(path)[0]['odd, "name"'] == "1.5"


@pytest.mark.parametrize("kept", [0, 3, 10])
def test_a_resumed_run_leaves_the_file_of_one_that_never_stopped(tmp_path, samples, kept):
    whole, resumed = tmp_path / "whole.csv", tmp_path / "resumed.csv"
    write_all(whole, samples)
    write_all(resumed, samples[: kept + 2])
    write_all(resumed, samples[kept:], rewind=512 * kept)
    assert resumed.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_a_line_torn_by_a_kill_is_left_behind(tmp_path, samples, cut):
    path = tmp_path / "metrics.csv"
    write_all(path, samples[:5])
    path.write_bytes(path.read_bytes()[:-cut])
    write_all(path, samples[5:])
    torn = samples[4]
    assert [int(row["step"]) for row in rows_of(path)] == [sample.step for sample in samples if sample is not torn]


def test_no_temporary_file_stays(tmp_path, samples):
    write_all(tmp_path / "metrics.csv", samples, rewind=0)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]
