from __future__ import annotations

import json
import math

import pytest

from palaestra.runs.metrics_reader import WrittenSample
from palaestra.runs.series_book import BOOK, SeriesBook, read_book, room_for, write_book
from palaestra.runs.series_curve import Curve
from palaestra.runs.series_file import Extent


def a_book():
    book = SeriesBook(identity=7, newest_sample=3, furthest=WrittenSample(2, 100, 5.25))
    a = Curve(0, True, Extent(3, 99), (Extent(1, 1), Extent(), Extent()), (100, 5.25, math.inf), False)
    return book.with_curve("a", a).with_curve("b", Curve(1, False))


def test_a_book_is_read_back_as_it_was_written(tmp_path):
    write_book(tmp_path, a_book())
    assert read_book(tmp_path) == a_book()


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"curves": [{"name": "a", "number": "../../x", "is_metric": True, "extents": [], "last": None}]},
        {"curves": [{"name": "a", "number": 0, "is_metric": True, "extents": [[1, 1]], "last": None}]},
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
    assert room_for(book.curves, "a", is_metric=False) is None
    assert room_for(book.curves, "a", is_metric=True) is book.curves["a"]
    assert room_for(book.curves, "b", is_metric=False) is book.curves["b"]
    assert room_for(book.curves, "b", is_metric=True) == Curve(1, True)
    assert room_for(book.curves, "c", is_metric=True) == Curve(2, True)
