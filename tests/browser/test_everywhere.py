"""What holds on every page: readable for all, on a phone, by keyboard, and after the daemon was away."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.full]

PLACES = {
    "runs": "#/runs",
    "grouped": "#/runs?seeds=grouped",
    "overview": "#/run/{run}",
    "plots": "#/run/{run}/plots",
    "log": "#/run/{run}/log",
    "config": "#/run/{run}/config",
    "checkpoints": "#/run/{run}/checkpoints",
    "evaluations": "#/run/{run}/evaluations",
    "videos": "#/run/{run}/videos",
    "files": "#/run/{run}/files",
    "compare": "#/compare?runs={run},{other}",
    "scores": "#/compare?runs={run},{other}&view=scores",
    "settings": "#/compare?runs={run},{other}&view=config",
    "new": "#/new?recipe=cartpole",
    "yaml": "#/new?recipe=cartpole&view=yaml",
    "live": "#/run/{run}/live",
    "replays": "#/run/{run}/replays",
    "load": "#/load?run={run}",
    "side": "#/side",
    "play": "#/play?run={run}",
    "cleanrl": "#/new?kind=cleanrl",
    "search": "#/new?kind=matmul",
    "discoveries": "#/discoveries",
    "system": "#/system",
}


def settled(page):
    expect(page.locator("main h1, main h2").first).to_be_visible()
    page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("place", PLACES)
def test_no_page_has_a_serious_barrier_in_light_or_dark(open_page, trained, barriers, place):
    for scheme in ("light", "dark"):
        page = open_page(PLACES[place].format(run=trained[0], other=trained[1]), color_scheme=scheme)
        settled(page)
        assert barriers(page) == []


@pytest.mark.parametrize("place", PLACES)
def test_no_page_is_wider_than_a_phone(open_page, trained, place):
    phone = {"width": 360, "height": 720}
    page = open_page(PLACES[place].format(run=trained[0], other=trained[1]), viewport=phone, has_touch=True)
    settled(page)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360


def test_keys_go_everywhere_and_the_question_mark_lists_them(open_page, trained):
    page = open_page("#/runs")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="System")).to_be_visible()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("go to Runs")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.locator("#field-seed").click()
    page.keyboard.type("?t")
    expect(keys).to_be_hidden()


def test_light_and_dark_follow_the_system_until_the_switch(open_page):
    page = open_page("#/runs", color_scheme="dark")
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Light or dark").click()
    expect(root).to_have_attribute("data-theme", "light")
    page.reload()
    expect(root).to_have_attribute("data-theme", "light")


def test_a_daemon_that_comes_back_is_found_again_and_the_place_is_stored(open_page, trained, serving):
    page = open_page(f"#/run/{trained[0]}/log?search=steps", allows="ERR_CONNECTION_REFUSED")
    expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
    serving.stop()
    try:
        expect(page.get_by_text("The daemon does not respond.")).to_be_visible()
        expect(page.get_by_role("heading", name="twin-1")).to_be_visible()
    finally:
        serving.start()
    expect(page.get_by_text("The daemon does not respond.")).to_be_hidden(timeout=60_000)
    expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
    expect(page.get_by_label("Search the log")).to_have_value("steps")
    assert page.url.endswith("/log?search=steps")


def test_an_address_that_names_nothing_says_so(open_page):
    page = open_page("#/nowhere/at-all")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()


def test_all_files_of_the_page_are_together_under_120_kilobytes(built_page):
    static = Path(__file__).parents[2] / "src" / "palaestra" / "web" / "static"
    files = [path for path in static.rglob("*") if path.suffix in {".js", ".css", ".html", ".svg"}]
    assert {path.suffix for path in files} == {".js", ".css", ".html", ".svg"}
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < 120_000


def test_no_source_of_the_page_writes_markup_or_inline_styles():
    sources = Path(__file__).parents[2] / "ui" / "src"
    bad = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|\{@html|document\.write|\beval\(|\sstyle=[\"{]")
    found = [
        path.name for path in sources.rglob("*") if path.suffix in {".ts", ".svelte"} and bad.search(path.read_text())
    ]
    assert found == []
