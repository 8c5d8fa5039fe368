"""Shadow player, a person at the keyboard, and several policies side by side."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.full]

PATIENCE = 90_000  # milliseconds; a match loads torch first
SCRIPT = Path(__file__).parents[1] / "apps" / "scripts" / "scripts" / "ppo.py"


@pytest.fixture(scope="module")
def arena(serving):
    """A tiny Arena, trained a little, with recorded episodes."""
    config = {"total_steps": 8192, "checkpoints": {"save_interval": 2}}
    body = {"kind": "native", "recipe": "arena.tiny", "name": "tiny", "config": config}
    run = serving.ask("/api/runs", body)["run"]["id"]
    serving.wait_for(run, "finished")
    judging = serving.ask(f"/api/runs/{run}/evaluate", {"selector": "latest", "episodes": 1, "replays": True})
    serving.wait_for(judging["run"]["id"], "finished")
    return run


@pytest.fixture(scope="module")
def scripted(serving):
    """A finished run of a script in CleanRL's manner, with a checkpoint of its own networks."""
    config = {"script": str(SCRIPT), "total_timesteps": 1024, "num_envs": 2}
    run = serving.ask("/api/runs", {"kind": "cleanrl", "name": "scripted", "config": config})["run"]["id"]
    serving.wait_for(run, "finished")
    return run


def test_the_newest_policy_of_a_script_plays_smoothly(open_page, scripted):
    page = open_page(f"#/run/{scripted}/live")
    page.get_by_role("button", name="Latest policy, smooth").click()
    expect(page.locator("figcaption").nth(3)).to_contain_text(re.compile(r"scripted.*len"), timeout=PATIENCE)
    expect(page.locator(".state")).to_contain_text("connected")


def test_a_scripts_policy_plays_beside_ours_and_a_random_player_on_the_same_seeds(open_page, scripted, trained):
    page = open_page(f"#/side?seats={scripted}:latest,{trained[0]}:latest,random")
    page.get_by_role("button", name="Start").click()
    rows = page.locator("tbody tr")
    for row in range(3):
        expect(rows.nth(row)).to_contain_text(re.compile(r"\s[1-9]"), timeout=PATIENCE)  # the first round is over
    expect(page.locator("figure")).to_have_count(3)
    expect(page.locator("figcaption").nth(0)).to_contain_text("scripted")


def test_the_shadow_plays_the_newest_checkpoint_in_four_worlds(open_page, trained):
    page = open_page(f"#/run/{trained[0]}/live")
    page.get_by_role("button", name="Latest policy, smooth").click()
    expect(page.locator("figcaption").nth(3)).to_contain_text(re.compile(r"twin-1 · epoch \d+.*len"), timeout=PATIENCE)
    expect(page.locator(".state")).to_contain_text("connected")
    page.get_by_role("button", name="Training envs").click()
    expect(page.get_by_role("heading", name="This run has ended")).to_be_visible()


def test_the_shadow_of_a_run_without_a_checkpoint_says_so(open_page, serving, train):
    run = train("young", total_steps=1_000_000_000, checkpoints={"save_interval": 1_000_000})
    serving.wait_for(run, "running")
    page = open_page(f"#/run/{run}/live?view=shadow")
    expect(page.locator(".state")).to_contain_text(re.compile("refused.*checkpoint"), timeout=PATIENCE)
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_a_policy_chance_and_a_person_play_the_same_seeds_together(open_page, trained):
    page = open_page(f"#/side?seats={trained[0]}:latest,random,person")
    page.get_by_label("First seed").fill("5")
    page.get_by_role("button", name="Start").click()
    rows = page.locator("tbody tr")
    expect(rows.nth(2)).to_contain_text(re.compile(r"You\s*[1-9]"), timeout=PATIENCE)  # the first round is over
    for row in range(3):
        expect(rows.nth(row)).to_contain_text(re.compile(r"[1-9]"))
    expect(page.locator("figure")).to_have_count(3)
    expect(page.locator("figcaption").nth(1)).to_contain_text("Random")


def test_a_person_walks_in_arena_step_by_step(open_page, arena):
    page = open_page(f"#/play?run={arena}")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.get_by_role("group", name="Actions")).to_be_visible(timeout=PATIENCE)
    expect(page.locator("figcaption")).to_contain_text("You (agent 0)")
    for steps, key in enumerate(["ArrowUp", "ArrowRight", "s", "."], 1):
        page.keyboard.press(key)
        expect(page.locator("figcaption")).to_contain_text(f"length {steps}")
    page.get_by_role("button", name=re.compile("north")).click()
    expect(page.locator("figcaption")).to_contain_text("length 5")


def test_a_recorded_episode_is_moved_through_and_its_agents_are_inspected(open_page, arena):
    page = open_page(f"#/run/{arena}/replays")
    step = page.get_by_test_id("replay-step")
    expect(step).to_contain_text("of 64")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("slider", name="Step").fill("10")
    expect(step).to_have_text("step 10 of 64")
    page.get_by_role("button", name="Next step").click()
    expect(step).to_have_text("step 11 of 64")
    page.get_by_label(re.compile("^Agent")).select_option("1")
    expect(page.get_by_role("complementary")).to_contain_text("row")
    page.keyboard.press("End")
    expect(step).to_have_text("step 64 of 64")
    assert page.locator("canvas").evaluate("canvas => canvas.width") > 100
