"""Load a policy: from a run or from a file, locked until somebody overrides, and then watched."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.full]


def test_what_is_found_is_shown_and_locked_until_it_is_overridden(open_page, trained):
    page = open_page(f"#/load?run={trained[0]}")
    environment = page.get_by_label("Environment", exact=True)
    expect(environment).to_have_value("CartPole-v1")
    for name in ("Environment", "Environment settings", "Seed", "Suite"):
        expect(page.get_by_label(name, exact=True)).to_be_disabled()
    expect(page.get_by_role("main")).to_contain_text("mlp")
    page.get_by_role("button", name="Override").click()
    expect(environment).to_be_enabled()
    page.get_by_label("Environment settings").fill("nonsense")
    expect(page.get_by_role("alert")).to_contain_text("Line 1")
    expect(page.get_by_role("button", name="Evaluate and watch")).to_be_disabled()
    page.get_by_role("button", name="Discard changes").click()
    expect(page.get_by_label("Environment settings")).to_have_value("")
    expect(page.get_by_role("button", name="Evaluate and watch")).to_be_enabled()


def test_a_policy_plays_batch_after_batch_under_its_line(open_page, trained, serving):
    page = open_page(f"#/load?run={trained[0]}")
    page.get_by_label("Episodes per batch").fill("2")
    page.get_by_label("batch after batch").check()
    page.get_by_role("button", name="Override").click()
    page.get_by_label("Seed", exact=True).fill("77")
    page.get_by_role("button", name="Evaluate and watch").click()
    page.wait_for_url(re.compile("#/run/.*/live"))
    judging = page.url.split("#/run/")[1].split("/")[0]
    hud = page.get_by_test_id("hud")
    expect(hud).to_contain_text("twin-1 (Eval)", timeout=60_000)
    expect(hud).to_contain_text(
        re.compile(r"eval batch \d+ \| episodes=2 avg=[\d.]+ min=[\d.]+ max=[\d.]+"), timeout=60_000
    )
    expect(page.locator("figcaption").first).to_contain_text("length", timeout=60_000)
    config = serving.ask(f"/api/runs/{judging}")["config"]
    assert (config["seed"], config["episodes"], config["repeat"]) == (77, 2, True)


def test_an_overridden_environment_is_played(open_page, trained, serving):
    page = open_page(f"#/load?run={trained[0]}")
    page.get_by_label("Episodes per batch").fill("1")
    page.get_by_role("button", name="Override").click()
    page.get_by_label("Environment", exact=True).fill("CartPole-v0")
    page.get_by_role("button", name="Evaluate and watch").click()
    page.wait_for_url(re.compile("#/run/.*/live"))
    evaluation = page.url.split("#/run/")[1].split("/")[0]
    ended = serving.wait_for(evaluation, "finished", "failed")
    assert ended["state"] == "finished", ended["failure"]
    assert ended["summary"]["max"] <= 200  # the limit of CartPole-v0


def test_a_checkpoint_goes_out_as_a_file_and_comes_in_again(open_page, trained, serving, tmp_path):
    page = open_page(f"#/run/{trained[0]}/checkpoints")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download").first.click()
    file = tmp_path / saved.value.suggested_filename
    saved.value.save_as(file)
    page.goto(page.url.split("#")[0] + "#/load")
    page.get_by_role("heading", name="Load a policy").wait_for()
    page.locator("input[type=file]").set_input_files(file)
    page.wait_for_url(re.compile("target="))
    target = re.search(r"target=([0-9A-Z]+)", page.url)[1]
    assert target not in trained
    expect(page.get_by_label("Environment", exact=True)).to_have_value("CartPole-v1")
    assert serving.ask(f"/api/runs/{target}")["run"]["id"] == target


@pytest.mark.parametrize(("name", "words"), [("agent.pt", "pickled"), ("model.zip", "zip")])
def test_a_file_that_is_no_checkpoint_is_refused_where_it_was_chosen(open_page, name, words):
    page = open_page("#/load", allows="409")
    page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "application/zip", "buffer": b"PK no"})
    expect(page.get_by_role("alert")).to_contain_text(re.compile(words, re.IGNORECASE))
