"""One run: its log, settings, checkpoints, evaluations, videos and plots."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


def test_the_log_is_there_and_can_be_searched(open_page, trained):
    page = open_page(f"#/run/{trained[0]}/log")
    lines = page.get_by_role("log").locator(".line")
    expect(lines.first).to_be_visible()
    before = lines.count()
    page.get_by_label("Search the log").fill("steps/s")
    expect(page.locator("mark").first).to_have_text("steps/s")
    assert 0 < lines.count() <= before
    page.get_by_label("Search the log").fill("no line says this")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()


def test_the_log_of_a_live_run_is_followed(open_page, serving, train):
    run = train("talkative", total_steps=400_000)
    serving.wait_for(run, "running")
    page = open_page(f"#/run/{run}/log?stream=journal")
    lines = page.get_by_role("log").locator(".line")
    expect(lines.filter(has_text="run.started").first).to_be_visible(timeout=90_000)
    before = page.get_by_role("log").inner_text()
    page.wait_for_function("old => document.querySelector('[role=log]').innerText !== old", arg=before, timeout=90_000)


def test_settings_show_what_was_requested_and_differ_from_another_run_in_the_seed_only(open_page, trained):
    page = open_page(f"#/run/{trained[0]}/config")
    asked = page.get_by_role("row").filter(has_text=re.compile(r"^\s*total_steps"))
    expect(asked).to_contain_text("4096")
    expect(asked).to_contain_text("asked")
    page.get_by_label("Compare with another run").fill("twin-2")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("seed")


def test_a_checkpoint_is_evaluated_and_its_video_plays(open_page, trained, serving):
    page = open_page(f"#/run/{trained[0]}/checkpoints")
    best = page.get_by_role("row").filter(has_text="best")
    expect(best).to_have_count(1)
    best.get_by_role("button", name="Evaluate").click()
    page.get_by_label("Episodes").fill("1")
    page.get_by_label("record a video of every episode").check()
    page.get_by_role("dialog").get_by_role("button", name="Evaluate").click()
    page.wait_for_url(re.compile(rf"#/run/(?!{trained[0]})"))
    judging = page.url.split("#/run/")[1].split("/")[0]
    ended = serving.wait_for(judging, "finished", "failed")
    assert ended["state"] == "finished", ended["failure"]

    page.goto(f"{serving.url}/#/run/{judging}/videos")  # it lies with the evaluated run, and is shown here too
    page.wait_for_function("() => document.querySelector('video')?.currentTime > 0")


def test_a_checkpoint_can_be_taken_along(open_page, trained):
    page = open_page(f"#/run/{trained[0]}/checkpoints")
    with page.expect_download() as taken:
        page.get_by_role("link", name="Download").first.click()
    assert taken.value.path().read_bytes()[:2] == b"PK"


def test_evaluations_made_while_training_are_listed(open_page, trained, serving):
    batches = serving.ask(f"/api/runs/{trained[1]}/evaluations")["batches"]
    page = open_page(f"#/run/{trained[1]}/evaluations")
    expect(page.locator("tbody tr")).to_have_count(len(batches))
    assert len(batches) >= 2


# When every chart in sight has had its turn.
PICTURES_LATER = """() => new Promise(done => {
  let left = 40;
  const wait = () => (left-- > 0 ? requestAnimationFrame(wait) : done());
  wait();
})"""


def test_dragging_across_a_chart_zooms_in_to_single_points_and_a_double_click_out(open_page, trained):
    page = open_page(f"#/run/{trained[0]}/plots")
    chart = page.get_by_role("figure", name=re.compile("^entropy"))
    page.get_by_role("region", name="entropy").scroll_into_view_if_needed()
    expect(chart.locator("canvas")).to_be_visible()
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    with page.expect_request(re.compile(r"/api/metrics\?.*name=losses%2Fentropy.*from=")):
        page.mouse.move(box["x"] + 120, box["y"] + 80)
        page.mouse.down()
        page.mouse.move(box["x"] + 220, box["y"] + 80, steps=4)
        page.mouse.up()
    assert re.search(r"from=\d+.*to=\d+", page.url)
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/api/metrics?" in request.url else None)
    chart.dblclick()
    page.wait_for_url(lambda url: "from=" not in url)
    page.evaluate(PICTURES_LATER)
    assert [url for url in asked if "from=" not in url] == []  # the whole was there before
    chart.press("+")
    page.wait_for_url(re.compile("from="))
    page.reload()
    expect(page.get_by_role("button", name="zoom out")).to_be_visible()
    page.get_by_role("figure", name=re.compile("^episodic_return")).first.dblclick()
    page.wait_for_url(lambda url: "from=" not in url)


def test_a_link_to_plots_shows_the_same_axis_and_scale_to_somebody_else(open_page, trained):
    page = open_page(f"#/run/{trained[0]}/plots")
    page.get_by_role("button", name="wall time").click()
    page.get_by_role("button", name="log", exact=True).click()
    other = open_page(page.url.split("/", 3)[3])
    for name in ("wall time", "log"):
        expect(other.get_by_role("button", name=name, exact=True)).to_have_attribute("aria-pressed", "true")
    other.get_by_role("button", name="log", exact=True).click()
    other.wait_for_url(lambda url: "scale=" not in url and "axis=time" in url)
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="Plots").click()
    page.wait_for_url(re.compile("axis=time.*scale=log"))  # as it was left, and so in the address


def test_the_return_in_the_header_says_that_it_is_a_mean_and_the_chart_that_it_is_the_last(open_page, trained):
    page = open_page(f"#/run/{trained[0]}")
    expect(page.locator(".figures")).to_contain_text("last 100 episodes")
    expect(page.get_by_role("region", name="Return of training episodes")).to_contain_text(re.compile(r"last\s*[\d.]+"))


def test_a_chart_that_leaves_the_view_waits_for_nothing_and_asks_again_when_it_is_back(open_page, trained):
    page = open_page(f"#/run/{trained[0]}/config", viewport={"width": 700, "height": 400})
    first, given_up = "name=charts%2Fepisodic_return", []
    page.on("requestfailed", lambda request: given_up.append(request.url))
    page.route(re.compile(r"/api/metrics\?"), lambda route: None)  # no answer comes
    with page.expect_request(re.compile(first)):
        page.evaluate("run => { location.hash = `#/run/${run}/plots`; }", trained[0])
    with page.expect_event("requestfailed", lambda request: first in request.url):
        page.get_by_role("region").last.scroll_into_view_if_needed()
    page.unroute_all()
    page.get_by_role("region", name="episodic_return").first.scroll_into_view_if_needed()
    expect(page.get_by_role("figure", name=re.compile("^episodic_return")).first.locator("canvas")).to_be_visible()
    assert len([url for url in given_up if first in url]) == 1


def test_a_run_is_deleted_only_after_a_second_word_and_then_is_gone(open_page, serving, train):
    run = train("short-lived", total_steps=256)
    serving.wait_for(run, "finished")
    page = open_page(f"#/run/{run}")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Cancel").click()
    assert serving.ask(f"/api/runs/{run}")["run"]["state"] == "finished"
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    assert serving.ask("/api/runs?search=short-lived")["total"] == 0


WITH_A_DIARY = """() => {
  const ask = window.fetch;
  window.diary = [];
  window.fetch = (url, init) => {
    init.signal?.addEventListener('abort', () => window.diary.push(`took back ${url}`));
    window.diary.push(`${init.method} ${url}`);
    return ask(url, init);
  };
}"""


@pytest.mark.parametrize(("part", "address"), [("overview", "/api/metrics?"), ("checkpoints", "/checkpoints")])
def test_what_is_still_queried_of_a_run_is_taken_back_before_it_is_deleted(open_page, serving, train, part, address):
    run = train(f"asked-too-late-{part}", total_steps=256)
    serving.wait_for(run, "finished")
    page = open_page("#/system")
    page.route(lambda url: address in url, lambda route: None)  # is never answered
    page.evaluate(WITH_A_DIARY)
    page.evaluate(f"location.hash = '#/run/{run}/{part}'")
    page.wait_for_function("address => window.diary.some((line) => line.includes(address))", arg=address)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    diary = page.evaluate("window.diary")
    before = [line for line in diary[: diary.index(f"DELETE /api/runs/{run}")] if address in line]
    asked = {line.removeprefix("GET ") for line in before if line.startswith("GET")}
    assert asked
    assert asked == {line.removeprefix("took back ") for line in before if line.startswith("took back")}


def test_a_run_that_is_not_there_is_reported_to_be_so(open_page):
    page = open_page("#/run/no-such-run", allows="404")
    expect(page.get_by_role("alert")).to_contain_text("no-such-run")


def test_a_note_is_stored(open_page, trained, serving):
    page = open_page(f"#/run/{trained[0]}")
    page.get_by_label("Note").fill("<i>wider</i> next time")
    page.get_by_role("button", name="Save the note").click()
    expect(page.get_by_role("button", name="Save the note")).to_be_disabled()
    assert serving.ask(f"/api/runs/{trained[0]}")["run"]["note"] == "<i>wider</i> next time"


@pytest.mark.full
def test_a_run_that_is_removed_meanwhile_is_reported_to_be_gone(open_page, serving, train):
    run = train("removed-meanwhile", total_steps=256)
    serving.wait_for(run, "finished")
    page = open_page(f"#/run/{run}/config", allows="404")
    expect(page.get_by_role("heading", name="removed-meanwhile")).to_be_visible()
    serving.ask(f"/api/runs/{run}", method="DELETE")
    expect(page.get_by_role("heading", name="This run was removed")).to_be_visible()
    page.get_by_role("link", name="Go to the runs").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()


@pytest.mark.full
def test_a_video_that_is_missing_is_reported_in_its_place(open_page, trained):
    gone = {"videos": [{"name": "gone.mp4", "bytes": 1000, "created_at": 1.0}]}
    page = open_page("#/system", allows="404")
    page.route(re.compile("/videos$"), lambda route: route.fulfill(json=gone))
    page.goto(page.url.split("#")[0] + f"#/run/{trained[0]}/videos")
    expect(page.get_by_role("heading", name="Cannot play this video")).to_be_visible()
    expect(page.get_by_role("button", name="gone.mp4")).to_be_visible()
