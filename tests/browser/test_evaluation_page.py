"""The page of an evaluation run: its batches while they are played, and the way to the evaluated run and back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


@pytest.fixture
def evaluation(serving, trained, train):
    """An evaluation that goes on until it is stopped."""
    order = {"selector": "best", "episodes": 2, "repeat": True}
    return serving.ask(f"/api/runs/{trained[0]}/evaluate", order)["run"]["id"]


def test_batches_are_observed_as_they_are_played_and_both_runs_lead_to_each_other(
    open_page, serving, trained, evaluation
):
    page = open_page(f"#/run/{evaluation}")
    newest = page.locator("tbody td").first
    expect(newest).to_be_visible(timeout=90_000)
    expect(newest).not_to_have_text(newest.inner_text())  # more batches come while the page is open
    expect(page.get_by_role("figure", name=re.compile("Mean return by batch")).locator("canvas")).to_be_visible()
    serving.ask(f"/api/runs/{evaluation}/stop", {"grace_seconds": 20})
    ended = serving.wait_for(evaluation, "cancelled")
    batches = serving.ask(f"/api/runs/{evaluation}/evaluations")["batches"]
    mean = sum(batch["avg"] for batch in batches) / len(batches)
    statistics = page.locator("section").filter(has=page.get_by_role("heading", name="Statistics"))
    expect(statistics).to_contain_text(re.compile(rf"Batches\s*{len(batches):,}\D"))
    expect(statistics).to_contain_text(re.compile(rf"Episodes\s*{2 * len(batches):,}\D"))
    assert ended["summary"]["mean"] == pytest.approx(mean)
    assert ended["agent_step"] > ended["summary"]["episodes"]  # CartPole falls after some steps, not after one

    page.get_by_role("link", name="Log").click()
    expect(page.get_by_role("log")).to_contain_text("eval batch 1 | episodes=2 avg=")
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="twin-1").click()
    expect(page.get_by_role("heading", name="twin-1")).to_be_visible()
    page.get_by_role("link", name="Evaluations").click()
    page.get_by_role("link", name="open").first.click()
    page.wait_for_url(re.compile(f"#/run/{evaluation}"))
