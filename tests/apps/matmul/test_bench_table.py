from palaestra.apps.matmul.bench_cells import Cell
from palaestra.apps.matmul.bench_report import Benchmark
from palaestra.apps.matmul.bench_table import COLUMNS, table_rows

FLOAT = Cell("float32", 1024, "NumPy (BLAS)", 0.02, 0.018, 2, 1.11, 1.0, 1.11, "win", 2, error=1e-6)
LONG = Cell("object", 16, "NumPy", None, 0.5, 1, None, None, 0.9, "loss", 0, detail="8192 bits")
MADE = Benchmark(
    "01BENCH", "2x2x2-zt-r7-abc", "abc", "01RUN", "2x2x2", "zt", 7, 15, 0.0, 2, {"cpu": "a processor"},
    {"blas": "openblas 1", "compiler": "cc"}, 6, (FLOAT, LONG), {},
)  # fmt: skip


def test_every_comparison_is_a_row_with_the_run_that_found_the_scheme():
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in table_rows(MADE)]
    assert [(row["Type"], row["Size"], row["Verdict"]) for row in rows] == [
        ("float32", 1024, "win"),
        ("object 8192 bits", 16, "loss"),
    ]
    assert {row["Source Run ID"] for row in rows} == {"01RUN"}
    assert {(row["Benchmark ID"], row["Threads"], row["CPU"]) for row in rows} == {("01BENCH", 2, "a processor")}
    assert (rows[0]["Scheme (ms)"], rows[0]["Baseline (ms)"], rows[0]["Gain"]) == (18.0, 20.0, 1.11)


def test_what_was_not_timed_is_empty_and_never_zero():
    row = dict(zip(COLUMNS, table_rows(MADE)[1], strict=True))
    assert (row["Baseline (ms)"], row["Gain"], row["Error"]) == (None, None, None)
