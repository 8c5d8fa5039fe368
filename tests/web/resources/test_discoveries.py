from __future__ import annotations

import numpy as np
import pytest

from palaestra.apps.matmul.benchmark.cells import Cell
from palaestra.apps.matmul.benchmark.report import Benchmark, BenchStore
from palaestra.apps.matmul.schemes.archive import Archive, Provenance
from palaestra.apps.matmul.schemes.factorization import Factorization, Format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify


@pytest.fixture
def naive_factorization(daemon):
    """The 2x2x1 product in four multiplications, as a discovery with one benchmark, written by the app itself."""
    u, v, w = (np.zeros((4, size), np.int64) for size in (4, 2, 2))
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        product = 2 * row + column
        u[product, product] = v[product, column] = w[product, row] = 1
    origin = Provenance("01RUN", "flip", 3, 1000, 1.5, 1.4, 9.0, machine={"cpu": "x"})
    proved = verify(Factorization(Format(2, 2, 1), Field.ZT, u, v, w))
    entry, _ = Archive(daemon.root).add(proved, origin)
    cells = (
        Cell("int64", 512, "NumPy", 0.29, 0.01, 1, 29.0, 14.5, 2.0, "loss", 0, is_exact=True, others={"leaf": 0.02}),
        Cell("object", 8, "NumPy", None, 0.5, 1, None, None, 1.5, "win", 1, detail="64 bits", is_exact=True),
    )
    software = {"blas": "OpenBLAS 1", "compiler": "gcc 12"}
    hardware = {"cpu": "a processor", "cores": 2}
    BenchStore(daemon.root).add(
        Benchmark(
            "01BENCH",
            entry.file.stem,
            entry.fingerprint,
            "01RUN",
            "2x2x1",
            "zt",
            4,
            2,
            5.0,
            1,
            hardware,
            software,
            6,
            cells,
            {"int64": None},
        )
    )
    return entry.file.stem


def test_a_discovery_contains_its_benchmarks_with_all_comparisons(client, naive_factorization):
    (listed,) = client.get("/api/discoveries").json()["discoveries"]
    assert (listed["id"], listed["benchmark_count"]) == (naive_factorization, 1)
    (benchmark,) = client.get(f"/api/discoveries/{naive_factorization}").json()["benchmarks"]
    assert (benchmark["cpu"], benchmark["threads"], benchmark["made_at"]) == ("a processor", 1, 5.0)
    whole, objects = benchmark["cells"]
    assert (whole["dtype"], whole["size"], whole["gain"], whole["result"]) == ("int64", 512, 29.0, "loss")
    assert whole["others"] == {"leaf": 0.02}
    assert (objects["detail"], objects["baseline_seconds"], objects["is_exact"]) == ("64 bits", None, True)


def test_discoveries_are_filtered_by_format(client, naive_factorization):
    assert client.get("/api/discoveries", params={"format": "2x2x1"}).json()["discoveries"]
    assert client.get("/api/discoveries", params={"format": "3x3x3"}).json()["discoveries"] == []


def test_damaged_and_missing_discoveries_are_reported(client):
    assert client.get("/api/discoveries", params={"format": "3x3"}).status_code == 422
    assert client.get("/api/discoveries/nothing").status_code == 404


def test_known_ranks_are_listed_without_discoveries(client):
    data = client.get("/api/discoveries").json()
    assert data["discoveries"] == []
    assert {"format": "2x2x2", "naive": 8}.items() <= data["known"][0].items()
