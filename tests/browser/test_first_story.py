"""The main story, short enough to be told in every round: asked for in the form, watched, stopped, and gone on with."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow

TILES = 8
# The pictures that are on the screen, as texts that differ when they do.
PICTURES = "() => [...document.querySelectorAll('figure canvas')].map(canvas => canvas.toDataURL())"
HAVE_MOVED = f"before => ({PICTURES})().every((picture, tile) => picture !== before[tile])"


def test_a_training_is_requested_in_the_form_its_tiles_move_and_it_is_stopped(open_page, serving):
    page = open_page("#/new?recipe=cartpole")
    page.locator("#field-total_steps").fill("3e6")
    page.get_by_role("textbox", name="Name", exact=True).fill("first-story")
    page.get_by_role("button", name="Start training").click()
    expect(page.get_by_role("heading", name="first-story")).to_be_visible()

    page.get_by_role("link", name="Live").click()
    expect(page.locator("figure")).to_have_count(TILES, timeout=90_000)
    for tile in range(TILES):
        expect(page.locator("figcaption").nth(tile)).to_contain_text(re.compile(r"len(gth)? \d"), timeout=90_000)
    page.wait_for_function(HAVE_MOVED, arg=page.evaluate(PICTURES), timeout=90_000)
    expect(page.get_by_test_id("hud")).to_contain_text(re.compile(r"first-story \| step [\d,]+ \| [\d,]+ steps/s"))

    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=90_000)
    expect(page.locator(".state")).to_contain_text("closed")
    run = serving.ask("/api/runs/first-story")["run"]
    assert 0 < run["agent_step"] < 3_000_000
    assert serving.ask(f"/api/runs/{run['id']}/checkpoints")["checkpoints"]
