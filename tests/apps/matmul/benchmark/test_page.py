from dataclasses import asdict
from html.parser import HTMLParser

from palaestra.apps.matmul.benchmark.cells import Cell
from palaestra.apps.matmul.benchmark.page import COLUMNS, gain_plot, make_page, table_row

WON = Cell("float32", 1024, "NumPy (BLAS)", 1.1, 1.0, 1, 1.1, 1.0, 1.1, "win", 1, error=2e-6, baseline_error=1e-6)
SLOWER = Cell("int64", 64, "NumPy", None, 1.0, 1, None, None, 0.5, "loss", 0, is_exact=True, others={"leaf": 0.002})
BENCHMARK = {
    "id": "01B",
    "discovery": "2x2x2-zt-r7-x",
    "format": "2x2x2",
    "rank": 7,
    "field": "zt",
    "made_at": 0.0,
    "source_run_id": "<script>",
    "hardware": {"cpu": "some"},
    "threads": 1,
    "software": {"blas": "b", "compiler": "c"},
    "additions": 15,
    "products_checked": 6,
    "cells": [asdict(WON), asdict(SLOWER)],
}


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def tags(text):
    parser = Tags()
    parser.feed(text)
    return parser.seen


def test_the_page_is_self_contained_with_a_plot_and_a_row_for_each_comparison():
    page = make_page(BENCHMARK)
    seen = tags(page)
    names = [name for name, _ in seen]
    assert names.count("svg") == 1
    assert names.count("tr") == 3
    assert not {"script", "link", "img"} & set(names)
    assert not [attributes for _, attributes in seen if {"src", "href"} & set(attributes)]
    assert "&lt;script&gt;" in page


def test_a_row_has_errors_and_marks_missing_timings():
    row = dict(zip(COLUMNS, table_row(asdict(SLOWER)), strict=True))
    assert (row["verdict"], row["x NumPy"], row["error"], row["other candidates, ms"]) == (
        "loss",
        "-",
        "exact",
        "leaf 2",
    )
    row = dict(zip(COLUMNS, table_row(asdict(WON)), strict=True))
    assert (row["error"], row["NumPy's error"]) == ("2.0e-06", "1.0e-06")


def test_every_comparison_is_a_point_of_the_plot():
    dots = [attributes for name, attributes in tags(gain_plot([asdict(WON), asdict(SLOWER)])) if name == "circle"]
    assert len(dots) == 2
    assert float(dots[0]["cy"]) < float(dots[1]["cy"])  # the win stands above the loss
    assert "No comparisons" in gain_plot([])


def test_integers_are_compared_with_numpy_and_float_blas():
    cell = {**asdict(SLOWER), "seconds": 2.0, "gain": 29.27, "others": {"leaf": 1.0, "float64 BLAS": 1.0}}
    row = dict(zip(COLUMNS, table_row(cell), strict=True))
    assert (row["verdict"], row["x NumPy"], row["x float64 BLAS"]) == ("loss", "29.27", "0.50")
