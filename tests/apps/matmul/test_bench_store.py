import json
from dataclasses import replace

from palaestra.apps.matmul.bench_cells import Cell
from palaestra.apps.matmul.bench_report import Benchmark, describe_software
from palaestra.apps.matmul.bench_store import BenchStore
from palaestra.runs.environment import describe_hardware

WON = Cell("float32", 1024, "NumPy (BLAS)", 1.1, 1.0, 1, 1.1, 1.0, 1.1, "win", 1)


def made(name, discovery):
    software = {"blas": "b", "compiler": "c"}
    return Benchmark(
        name,
        discovery,
        "f",
        "01RUN",
        "2x2x2",
        "zt",
        7,
        15,
        0.0,
        1,
        {"cpu": "x"},
        software,
        6,
        (WON,),
        {"float32": 1024},
    )


def test_benchmarks_are_found_by_their_discovery_the_newest_first(tmp_path):
    store = BenchStore(tmp_path)
    for name, discovery in (("01A", "one"), ("01B", "two"), ("01C", "one")):
        file = store.add(made(name, discovery))
        assert store.page(name).read_text().startswith("<!doctype html>")
        assert json.loads(file.read_text())["source_run_id"] == "01RUN"
    assert [benchmark.id for benchmark in store.of("one")] == ["01C", "01A"]
    assert store.of("three") == []


def test_a_damaged_one_hides_no_other(tmp_path):
    store = BenchStore(tmp_path)
    store.add(made("01A", "one"))
    store.add(made("01B", "one")).write_text("{")
    other = store.add(made("01C", "one"))
    other.write_text(other.read_text().replace('"cells"', '"rows"'))
    assert [benchmark.id for benchmark in store.all()] == ["01A"]


def test_what_was_measured_on_this_machine_is_remembered_and_must_agree(tmp_path):
    store = BenchStore(tmp_path)
    here = replace(made("01A", "one"), hardware=describe_hardware(), software=describe_software())
    store.add(here)
    store.add(made("01B", "one"))  # of another machine
    store.add(replace(here, id="01C", threads=2, cells=(replace(WON, size=64),)))
    assert store.auto_table("one", 1).levels == {"float32": ((1024, 1),)}
    store.add(replace(here, id="01D", cells=(replace(WON, auto_levels=0), replace(WON, size=4096, auto_levels=2))))
    assert store.auto_table("one", 1).levels == {"float32": ((1024, 0), (4096, 2))}
    assert store.auto_table("two", 1).levels == {}
