from __future__ import annotations

import json
import math

import pytest

from palaestra.runs.metrics_reader import WrittenSample
from palaestra.runs.series_book import BOOK, SeriesBook, read_book, write_book
from palaestra.runs.series_file import Extent


def a_book():
    book = SeriesBook(identity=7, newest_sample=3, furthest=WrittenSample(2, 100, 5.25))
    assert book.admits("a", is_metric=True)
    assert book.admits("b", is_metric=False)
    book.extents["a"] = Extent(3, 99)
    book.last["a"] = (100, 5.25, math.inf)
    return book


def test_a_book_is_read_back_as_it_was_written(tmp_path):
    write_book(tmp_path, a_book())
    assert read_book(tmp_path) == a_book()


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"curves": [{"name": "a", "file": "../../secret", "count": 1, "checksum": 1, "timing": False, "last": None}]},
        {"curves": 3},
        {"furthest": ["x"]},
        {"newest": None},
    ],
)
def test_a_book_that_makes_no_sense_is_no_book(tmp_path, change):
    write_book(tmp_path, a_book())
    content = json.loads((tmp_path / BOOK).read_text())
    (tmp_path / BOOK).write_text(json.dumps({**content, **change}))
    assert read_book(tmp_path) is None


def test_without_a_book_there_is_none(tmp_path):
    assert read_book(tmp_path) is None
    (tmp_path / BOOK).write_text("[]")
    assert read_book(tmp_path) is None


def test_a_metric_takes_the_place_of_a_timing_of_its_name_and_not_the_other_way_round():
    book = a_book()
    assert not book.admits("a", is_metric=False)
    book.extents["b"] = Extent(5, 5)
    assert book.admits("b", is_metric=True)
    assert book.extents["b"] == Extent()
    assert not book.admits("b", is_metric=False)


def test_a_copy_can_be_changed_without_the_first():
    book = a_book()
    copy = book.copied()
    copy.admits("c", is_metric=True)
    assert "c" not in book.files
