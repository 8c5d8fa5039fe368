"""The table of runs: found, tagged, grouped, compared, and alive."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

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
    expect(page.get_by_role("heading", name="No matching runs")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Search runs")).to_have_value("no run is called this")
    page.get_by_role("button", name="Show all runs").click()
    expect(row(page, "twin-1")).to_have_count(1)


def test_sorting_by_name_goes_in_both_directions(open_page, trained):
    page = open_page("#/runs?search=twin-")
    names = page.locator("td.name a").filter(has_text=re.compile("^twin-"))  # evaluations of a twin are found too
    page.get_by_role("button", name="Name").click()
    expect(names.first).to_have_text("twin-1")
    page.get_by_role("button", name="Name").click()
    expect(names.first).to_have_text("twin-2")


def test_a_tag_is_stored_and_found_by(open_page, trained, serving):
    page = open_page("#/runs?search=twin-")
    page.get_by_label("Select twin-2").check()
    page.get_by_label("Tag for the selected runs").fill("<b>bold</b>")
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
    for name in ("twin-1", "twin-2"):
        page.get_by_label(f"Select {name}").check()
    page.locator("main").get_by_role("link", name="Compare").click()
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
    expect(page.get_by_role("heading", name="No matching runs")).to_be_visible()
    run = train("from-elsewhere", total_steps=512)
    expect(row(page, "from-elsewhere")).to_be_visible()
    serving.wait_for(run, "finished")
    expect(row(page, "from-elsewhere")).to_contain_text("finished")


def test_on_a_phone_a_long_name_leaves_the_state_on_the_screen(open_page, serving, trained):
    found = serving.ask("/api/runs?search=twin-")
    for run in found["runs"]:
        run.update(name="a-name-" + "x" * 200)
    page = open_page("#/system", viewport={"width": 390, "height": 844})
    page.route(re.compile(r"/api/runs\?"), lambda route: route.fulfill(json=found))
    page.goto(f"{serving.url}/#/runs?search=x")
    state = page.locator("tbody .mark").first
    expect(state).to_have_text("finished")
    box = state.bounding_box()
    assert box["x"] + box["width"] <= 390


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


class ManyRuns:
    """Answers for a daemon with 2,500 runs: copies of a true one, listed as the API does."""

    def __init__(self, base):
        self.runs = [
            {**base, "id": f"01COPY{number:020}", "name": f"copy-{number}", "tags": []} for number in range(2500)
        ]
        self.held = None  # a list: further answers wait in it

    def answer(self, route):
        query = parse_qs(urlsplit(route.request.url).query)
        limit, offset = (int(query.get(name, [default])[0]) for name, default in (("limit", 100), ("offset", 0)))
        assert limit <= 1000
        found = [run for run in self.runs if run["id"] in query["run"]] if "run" in query else self.runs
        data = {"runs": found[offset : offset + limit], "total": len(found), "sequence": 0, "boot": "x"}
        if self.held is not None and len(self.held) == 0 and self.runs[0] not in found:
            self.held.append(lambda: route.fulfill(json=data))
        else:
            route.fulfill(json=data)


@pytest.fixture
def many(open_page, serving, trained):
    """open_many("#/runs"): a page on such a daemon."""
    runs = ManyRuns(serving.ask("/api/runs?search=twin-1")["runs"][0])

    def open_many(location):
        page = open_page("#/system")
        page.route(re.compile(r"/api/runs\?"), runs.answer)
        page.goto(f"{serving.url}/{location}")
        return page

    return runs, open_many


def test_thousands_of_runs_are_listed_and_few_of_them_are_in_the_page(many):
    _, open_many = many
    page = open_many("#/runs")
    expect(page.get_by_role("main")).to_contain_text("2,500 total")
    for location in (0.4, 0.8, 1.0):
        page.evaluate(f"scrollTo(0, document.scrollingElement.scrollHeight * {location})")
        expect(page.locator("tr.waiting")).to_have_count(0)
    expect(row(page, "copy-2499")).to_be_visible()
    assert page.locator("td.name a").count() < 60
    assert page.evaluate("document.querySelectorAll('*').length") < 3000
    page.evaluate("scrollTo(0, 0)")
    expect(row(page, "copy-0")).to_be_visible()
    page.get_by_label("Select all runs").click()
    expect(page.get_by_role("region", name="Selected runs")).to_contain_text("2500 selected")


def test_comparing_many_runs_says_at_once_how_many_have_come(many):
    runs, open_many = many
    runs.held = []
    ids = ",".join(run["id"] for run in runs.runs[:600])
    page = open_many(f"#/compare?view=scores&runs={ids}")
    expect(page.get_by_role("main").get_by_role("status")).to_contain_text("Loading runs: 200 of 600")
    expect(page.get_by_role("main").get_by_role("listitem").first).to_contain_text("copy-0")
    runs.held[0]()
    expect(page.get_by_role("main").get_by_role("listitem").last).to_have_text("and 400 more")
    expect(row(page, "copy-0")).to_be_visible()
    assert page.locator("td.name a").count() < 80
