"""Pictures of the page for the README and the guide, taken from real runs.

They are written to docs/images only with PALAESTRA_WRITE_DOCS=1; without, they are taken and looked at all the same.
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.full]

IMAGES = Path(__file__).parents[2] / "docs" / "images"
IS_WRITING = os.environ.get("PALAESTRA_WRITE_DOCS") == "1"
LONG = {"total_steps": 60_000, "evaluate_interval": 25, "evaluation": {"episodes": 5}}
WIDE = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def rendered(serving, trained):
    """For the documents, runs that have something to show; else those that are there."""
    if not IS_WRITING:
        return trained
    runs = [serving.train(f"balance-{seed}", seed=seed, **LONG) for seed in (1, 2, 3)]
    for run in runs:
        serving.wait_for(run, "finished")
    return runs


def keep(page, name):
    """At least some hundred colours: a page that failed to draw has a dozen."""
    frame = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    colours = frame.getcolors(maxcolors=1 << 24)
    assert len(colours) > 200
    if IS_WRITING:
        frame.save(IMAGES / f"{name}.webp", quality=88, method=6)


def drawn(page):
    expect(page.get_by_role("figure").first.locator("canvas")).to_be_visible()
    page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_runs_and_their_curves(open_page, rendered, scheme):
    page = open_page("#/runs", viewport=WIDE, color_scheme=scheme)
    expect(page.locator("svg path.line").first).to_be_visible()
    keep(page, f"page-runs-{scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_plots_of_one_run(open_page, rendered, scheme):
    page = open_page(f"#/run/{rendered[0]}/plots", viewport=WIDE, color_scheme=scheme)
    drawn(page)
    keep(page, f"page-plots-{scheme}")


def test_seeds_compared(open_page, rendered):
    page = open_page(f"#/compare?runs={','.join(rendered)}&seeds=yes", viewport=WIDE)
    drawn(page)
    keep(page, "page-compare")


def test_the_tiles_of_a_training(open_page, serving, train):
    run = train("watched-closely", total_steps=3_000_000)
    serving.wait_for(run, "running")
    page = open_page(f"#/run/{run}/live", viewport=WIDE)
    expect(page.locator("figcaption").nth(7)).to_contain_text(re.compile(r"len(gth)? \d"), timeout=90_000)
    keep(page, "page-live")


def test_a_discovery(open_page, serving):
    """Found here and now, so that nothing is shown that was not found."""
    config = {"format": "2x2x2", "field": "z", "seconds": 20}
    run = serving.ask("/api/runs", {"kind": "matmul", "name": "strassen", "config": config})["run"]["id"]
    serving.wait_for(run, "finished")
    found = serving.ask("/api/discoveries?format=2x2x2")["discoveries"]
    scheme = next(one for one in found if one["run"] == run)
    page = open_page(f"#/discoveries/{scheme['id']}", viewport=WIDE)
    expect(page.get_by_role("heading", name="Formulas")).to_be_visible()
    keep(page, "page-discovery")


def test_the_form(open_page, rendered):
    page = open_page("#/new?recipe=cartpole", viewport=WIDE)
    page.locator("#field-total_steps").fill("2e5")
    page.get_by_role("button", name="ppo").first.click()
    page.locator("[id='field-ppo.gamma']").fill("1.2")
    expect(page.locator("[id='field-ppo.gamma-about']")).to_contain_text("1.2")
    page.locator("[id='field-ppo.gamma']").evaluate("field => field.scrollIntoView({block: 'center'})")
    keep(page, "page-form")
