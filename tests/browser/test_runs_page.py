"""The table of runs: found, tagged, grouped, compared, and alive."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


def row(page, name):
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def test_a_finished_run_shows_its_state_return_and_curve(open_page, trained, serving):
    run = serving.ask(f"/api/runs/{trained[0]}")["run"]
    page = open_page("#/runs")
    line = row(page, "twin-1")
    expect(line).to_contain_text("finished")
    expect(line.locator("td.return")).to_have_text(re.compile(rf"^{run['summary']['episodic_return']:.4g}"[:4]))
    expect(line.locator("svg path.line")).to_have_attribute("d", re.compile(r"^M[\d. L]+$"))


def test_searching_leaves_what_fits_and_says_when_nothing_does(open_page, trained):
    page = open_page("#/runs")
    page.keyboard.press("/")
    page.keyboard.type("twin-2")
    expect(row(page, "twin-2")).to_have_count(1)
    expect(row(page, "twin-1")).to_have_count(0)
    page.get_by_label("Search runs").fill("no run is called this")
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Search runs")).to_have_value("no run is called this")
    page.get_by_role("button", name="Show all runs").click()
    expect(row(page, "twin-1")).to_have_count(1)


def test_sorting_by_name_goes_both_ways(open_page, trained):
    page = open_page("#/runs?search=twin-")
    names = page.locator("td.name a")
    page.get_by_role("button", name="Name").click()
    expect(names.first).to_have_text("twin-1")
    page.get_by_role("button", name="Name").click()
    expect(names.first).to_have_text("twin-2")


def test_a_tag_is_kept_and_found_by(open_page, trained, serving):
    page = open_page("#/runs?search=twin-")
    page.get_by_label("Select twin-2").check()
    page.get_by_label("Tag for all that are selected").fill("<b>bold</b>")
    page.get_by_role("button", name="Tag", exact=True).click()
    expect(row(page, "twin-2")).to_contain_text("<b>bold</b>")
    assert serving.ask(f"/api/runs/{trained[1]}")["run"]["tags"] == ["<b>bold</b>"]
    page.get_by_label("Tag", exact=True).select_option("<b>bold</b>")
    expect(row(page, "twin-1")).to_have_count(0)
    expect(row(page, "twin-2")).to_have_count(1)


def test_seeds_of_one_configuration_become_one_row(open_page, trained):
    page = open_page("#/runs?search=twin-")
    page.get_by_role("button", name="group seeds").click()
    group = page.get_by_role("row").filter(has_text="2 seeds")
    expect(group).to_have_count(1)
    expect(row(page, "twin-1")).to_have_count(0)
    group.get_by_role("button", name="twin").click()
    expect(row(page, "twin-1")).to_have_count(1)


def test_two_seeds_are_compared_as_curves_scores_and_settings(open_page, trained):
    page = open_page("#/runs?search=twin-")
    page.get_by_label("Select all that are shown").check()
    page.get_by_role("link", name="Compare").last.click()
    # Its place is there at once; which of all charts has its curves first is chance.
    chart = page.get_by_role("region", name="episodic_return").first.get_by_role("figure")
    expect(chart.locator("canvas")).to_be_visible()
    chart.hover(position={"x": 240, "y": 90})
    expect(chart.locator(".tip")).to_contain_text("twin-1")
    expect(chart.locator(".tip")).to_contain_text("twin-2")

    page.get_by_role("button", name="mean of seeds").click()
    expect(page.get_by_role("listitem").filter(has_text="2 seeds")).to_have_count(1)

    page.get_by_role("button", name="Settings that differ").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_have_text(re.compile(r"^\s*seed\s*(1\s*2|2\s*1)\s*$"))


def test_a_run_that_is_started_elsewhere_appears_by_itself(open_page, serving, train):
    page = open_page("#/runs?search=from-elsewhere")
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()
    run = train("from-elsewhere", total_steps=512)
    expect(row(page, "from-elsewhere")).to_be_visible()
    serving.wait_for(run, "finished")
    expect(row(page, "from-elsewhere")).to_contain_text("finished")


def test_hostile_names_are_shown_as_text(open_page, serving, trained):
    hostile = '<img src=x onerror="document.title=1"><script>document.title=2</script>\u202egnol' + "x" * 10_000
    found = serving.ask("/api/runs?search=twin-")
    for run in found["runs"]:
        run.update(name=hostile, failure=hostile, tags=[hostile[:60]], recipe=hostile)
    page = open_page("")
    page.route(re.compile(r"/api/runs\?"), lambda route: route.fulfill(json=found))
    page.goto(f"{serving.url}/#/runs?search=x")
    expect(page.locator("td.name a").first).to_have_text(hostile)
    assert page.locator("img[src=x]").count() == 0
    assert "Palaestra" in page.title()
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
