"""Discoveries: listed by format beside what is known over the same field, and one of them to take along."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from playwright.sync_api import expect

from palaestra.apps.matmul.benchmark.cells import Cell
from palaestra.apps.matmul.benchmark.report import Benchmark, BenchStore
from palaestra.apps.matmul.schemes.archive import Archive, Provenance
from palaestra.apps.matmul.schemes.factorization import Factorization, Format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify

pytestmark = pytest.mark.slow

STRASSEN = {
    "id": "2x2x2-zt-r7-0123456789abcdef",
    "format": "2x2x2",
    "field": "zt",
    "field_meaning": "coefficients -1, 0 and 1",
    "holds_over": ["gf2", "zt", "z"],
    "source": "",
    "license": "",
    "imported_file": "",
    "rank": 7,
    "naive_rank": 8,
    "known": 7,
    "comparison": "matches",
    "known_as_of": "2026-07",
    "additions_naive": 18,
    "additions_eliminated": 15,
    "additions_known": 15,
    "largest_coefficient": 1,
    "fingerprint": "0123456789abcdef",
    "canonical": "",
    "run": "",
    "method": "flip",
    "seed": 1,
    "step": 123456,
    "wall_seconds": 1.2,
    "cpu_seconds": 1.1,
    "found_at": 1789.0,
    "origin": "discovered",
    "parents": [],
    "benchmark_count": 1,
    "file": "/runs/discoveries/<script>.json",
}
DETAIL = {
    **STRASSEN,
    "formulas": ["m1 = (a11 + a22) * (b11 + b22)", "c11 = m1 + m4 - m5 + m7"],
    "straight_line": ["s1 = a21 + a22"],
    "code": "def multiply_2x2x2(a, b):\n    return a @ b\n",
    "machine": {"cpu": "<img src=x onerror=alert(1)>"},
    "benchmarks": [],
}
OTHERS = [
    {**STRASSEN, "id": "3x3x3-gf2-r25-ab", "format": "3x3x3", "field": "gf2", "rank": 25, "naive_rank": 27, "known": 23}
    | {"comparison": "above"},
    {**STRASSEN, "id": "3x3x3-z-r23-cd", "format": "3x3x3", "field": "z", "rank": 23, "naive_rank": 27, "known": 23},
]
KNOWN = [{"format": "2x2x2", "naive": 8, "gf2": 7, "zt": 7, "z": 7, "q": 7, "additions": 15}]
CATALOGUE = {"known_as_of": "2026-07", "known": KNOWN, "discoveries": [STRASSEN, *OTHERS], "damaged": []}


@pytest.fixture
def reports(open_page):
    """A page whose daemon has found just this."""

    def open_told(place, catalogue=CATALOGUE):
        page = open_page("#/system")
        page.route(re.compile(r"/api/discoveries(\?|$)"), lambda route: route.fulfill(json=catalogue))
        page.route(re.compile(r"/api/discoveries/"), lambda route: route.fulfill(json=DETAIL))
        page.goto(page.url.split("#")[0] + place)
        return page

    return open_told


def test_each_is_beside_the_best_known_of_its_own_field(reports):
    page = reports("#/discoveries")
    groups = page.locator("table").first.locator("tbody")
    expect(groups).to_have_count(2)
    expect(groups.nth(0)).to_contain_text("8 naive")
    rows = groups.nth(1).locator("tr").filter(has=page.locator("td"))
    expect(rows.nth(0)).to_have_text(re.compile(r"gf2\s*25\s*23\s*2 above the best known"))
    expect(rows.nth(1)).to_have_text(re.compile(r"z\s*23\s*23\s*matches the best known"))


def test_one_has_formulas_and_code_to_copy_and_its_origin(reports):
    page = reports("#/discoveries")
    page.get_by_role("link", name="2x2x2 over zt with 7").click()
    expect(page.get_by_role("heading", name="2x2x2 with 7 multiplications")).to_be_visible()
    main = page.get_by_role("main")
    expect(main).to_contain_text("m1 = (a11 + a22) * (b11 + b22)")
    expect(page.locator("code").filter(has_text="def multiply_2x2x2")).to_have_text(DETAIL["code"])
    expect(main).to_contain_text("15 (18 as written, best known 15)")
    assert page.locator("img[src=x]").count() == 0


@pytest.fixture
def benchmarked(serving):
    """A discovery with a benchmark, both written by the app itself, where the daemon looks."""
    u, v, w = (np.zeros((4, size), np.int64) for size in (4, 2, 2))
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        product = 2 * row + column
        u[product, product] = v[product, column] = w[product, row] = 1
    root = serving.folder / "runs"
    proved = verify(Factorization(Format(2, 2, 1), Field.ZT, u, v, w))
    entry, _ = Archive(root).add(proved, Provenance("", "import", None, None, 0.0, 0.0, 9.0, machine={}))
    cells = (
        Cell("float32", 1024, "NumPy (BLAS)", 0.01, 0.02, 1, 0.5, 1.0, 0.5, "loss", 0, error=1e-6),
        Cell("int64", 512, "NumPy", 0.29, 0.01, 1, 29.0, 14.5, 2.0, "loss", 0, is_exact=True, others={"BLAS": 0.002}),
    )
    hardware, software = {"cpu": "a <b>processor</b>"}, {"blas": "OpenBLAS 1", "compiler": "gcc 12"}
    name = entry.file.stem
    of = (name, entry.fingerprint, "", "2x2x1", "zt", 4, 2)
    BenchStore(root).add(Benchmark("01BENCH", *of, 5.0, 1, hardware, software, 6, cells, {}))
    yield name
    shutil.rmtree(Archive(root).path)


def test_a_benchmark_of_the_app_is_shown_with_its_machine_and_every_comparison(open_page, benchmarked):
    page = open_page(f"#/discoveries/{benchmarked}")
    expect(page.get_by_role("main")).to_contain_text("a <b>processor</b>, 1 thread, OpenBLAS 1")
    floats = page.get_by_role("row").filter(has_text="float32")
    expect(floats).to_contain_text(re.compile(r"20 ms\s*NumPy \(BLAS\)\s*10 ms\s*0\.5\d* \u00d7"))
    expect(floats).to_contain_text("loss")
    whole = page.get_by_role("row").filter(has_text="int64")
    expect(whole).to_contain_text(re.compile(r"29\d*(\.0+)? \u00d7.*exact.*BLAS 2 ms", re.DOTALL))
    assert "[object Object]" not in page.get_by_role("main").inner_text()


@pytest.mark.parametrize("place", ["#/discoveries", f"#/discoveries/{STRASSEN['id']}"])
def test_what_was_found_can_be_read_by_all_and_on_a_phone(reports, barriers, place):
    page = reports(place)
    expect(page.get_by_role("main")).to_contain_text("matches the best known")
    assert barriers(page) == []
    page.set_viewport_size({"width": 360, "height": 720})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360


def test_with_nothing_found_the_page_says_what_to_do(reports):
    page = reports("#/discoveries", {**CATALOGUE, "discoveries": [], "damaged": ["x.json is not to be trusted."]})
    expect(page.get_by_role("main")).to_contain_text("palaestra discover 2x2x2 seconds=1")
    expect(page.get_by_role("main")).to_contain_text("x.json is not to be trusted.")


@pytest.mark.full
def test_a_search_from_the_form_ends_among_the_discoveries(open_page, serving):
    page = open_page("#/discoveries")
    page.get_by_role("link", name="Search").click()
    page.locator("#field-seconds").fill("20")
    page.get_by_role("textbox", name="Name", exact=True).fill("seeker")
    page.get_by_role("button", name="Start training").click()
    expect(page.get_by_role("heading", name="seeker")).to_be_visible()
    run = serving.wait_for("seeker", "finished")
    found = serving.ask("/api/discoveries?format=2x2x2")["discoveries"]
    best = next(one for one in found if one["run"] == run["id"] and one["rank"] == 7)
    page.goto(f"{serving.url}/#/discoveries/{best['id']}")
    expect(page.get_by_role("main")).to_contain_text("matches the best known")
    expect(page.get_by_role("link", name=run["id"])).to_be_visible()
    code = page.locator("code").filter(has_text="def multiply_2x2x2").inner_text()
    assert product_of(code) == [[19 % 2, 22 % 2], [43 % 2, 50 % 2]]  # it was searched modulo 2


def product_of(code):
    """The product of two small matrices by the code that the page gives, taken as it stands."""
    ask = "\nimport numpy as np\nprint(multiply_2x2x2(np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])).tolist())"
    done = subprocess.run([sys.executable, "-c", code + ask], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
