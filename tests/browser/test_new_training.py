"""The form: what is sent, what is said at the field, and the same as YAML and as a command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.full]
FORM = "#/new?recipe=cartpole"


def sent_by(page, press):
    """The body of the request for a run, which is not let through."""
    bodies = []

    def catch(route):
        bodies.append(json.loads(route.request.post_data))
        route.fulfill(status=503, json={"error": {"message": "caught", "hint": "", "fields": []}})

    page.route("**/api/runs", lambda route: catch(route) if route.request.method == "POST" else route.fallback())
    press()
    expect(page.get_by_role("alert")).to_contain_text("caught")
    return bodies[-1]


def start(page):
    return lambda: page.get_by_role("button", name="Start training").click()


def test_an_untouched_form_sends_nothing_but_the_recipe(open_page):
    page = open_page(FORM, allows="503")
    expect(page.get_by_text("No changes")).to_be_visible()
    body = sent_by(page, start(page))
    assert body["config"] == {}
    assert (body["recipe"], body["kind"]) == ("cartpole", "native")


def test_false_null_and_zero_are_sent_as_they_are(open_page):
    page = open_page(FORM, allows="503")
    page.get_by_role("button", name=re.compile("^ppo")).click()
    page.locator("[id='field-ppo.normalize_advantages']").uncheck()
    page.locator("[id='field-ppo.target_kl']").fill("0.5")
    page.locator("[id='field-ppo.max_grad_norm']").fill("1e-1")
    page.locator("#field-evaluate_interval").fill("3")
    page.locator("#field-evaluate_interval").fill("0")
    body = sent_by(page, start(page))
    assert body["config"] == {"ppo": {"normalize_advantages": False, "target_kl": 0.5, "max_grad_norm": 0.1}}

    page.locator("[id='field-ppo.target_kl']").fill("")
    assert "target_kl" not in sent_by(page, start(page))["config"]["ppo"]


def test_the_form_has_the_section_of_the_chosen_algorithm_with_the_recipes_settings_for_it(open_page):
    page = open_page("#/new?recipe=pendulum", allows="503")
    expect(page.get_by_role("button", name=re.compile("^ppo"))).to_have_count(1)
    page.locator("#field-algorithm").select_option(label="sac")
    expect(page.get_by_role("button", name=re.compile("^ppo"))).to_have_count(0)
    page.get_by_role("button", name=re.compile("^sac")).click()
    starts = page.locator("[id='field-sac.learning_starts']")
    expect(starts).to_have_value("100")
    starts.fill("1000")  # the default of the section, which is a change beside the recipe
    body = sent_by(page, start(page))
    assert body["config"] == {"algorithm": "sac", "sac": {"learning_starts": 1000}}
    page.locator("#field-algorithm").select_option(label="ppo")
    expect(page.locator("#field-total_steps")).to_have_value("100000")


def test_a_wrong_value_is_reported_at_its_field_and_nothing_is_started(open_page, serving):
    before = serving.ask("/api/runs")["total"]
    page = open_page(FORM, allows="422")
    page.get_by_role("searchbox", name="Find a setting").fill("gamma")
    field = page.locator("[id='field-ppo.gamma']")
    field.fill("1.5")
    reports = page.locator("[id='field-ppo.gamma-about']")
    expect(reports).to_contain_text("1.5")
    expect(field).to_have_attribute("aria-invalid", "true")
    start(page)()
    expect(page.get_by_text("1 setting cannot be used")).to_be_visible()
    expect(page.get_by_text("must be at most 1")).to_have_count(1)
    expect(page.get_by_role("button", name="Start training")).to_be_enabled()  # the answer is there
    expect(page.get_by_text("must be at most 1")).to_have_count(1)
    assert serving.ask("/api/runs")["total"] == before

    field.fill("0.9")
    expect(field).to_have_attribute("aria-invalid", "false")


def test_an_error_does_not_survive_a_change_of_kind(open_page):
    page = open_page(FORM, allows="503")
    page.locator("#field-total_steps").fill("-5")
    expect(page.get_by_text("1 setting cannot be used")).to_be_visible()
    sent_by(page, start(page))
    page.get_by_label("Kind").select_option("matmul")
    expect(page.locator("#field-format")).to_be_visible()
    expect(page.get_by_text("No changes")).to_be_visible()
    expect(page.get_by_text("palaestra discover 2x2x2", exact=True)).to_be_visible()  # the daemon has answered
    expect(page.get_by_text("cannot be used")).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_yaml_and_form_say_the_same_in_both_directions(open_page):
    page = open_page(FORM)
    page.locator("#field-total_steps").fill("5e4")
    page.get_by_role("button", name="YAML").click()
    yaml = page.get_by_label("Configuration as YAML")
    expect(yaml).to_have_value(re.compile(r"total_steps: 50000\b"))

    yaml.fill("seed: 7\nppo:\n  gamma: 0.9\n")
    expect(page.get_by_text("ppo.gamma = 0.9")).to_be_visible()
    page.get_by_role("button", name="Form").click()
    expect(page.locator("#field-seed")).to_have_value("7")
    expect(page.locator("#field-total_steps")).to_have_value("100000")

    page.get_by_role("button", name="YAML").click()
    page.get_by_label("Configuration as YAML").fill("ppo:\n  gama: 0.9\n")
    expect(page.get_by_text(re.compile("gamma"))).not_to_have_count(0)


def test_the_command_beside_the_form_does_the_same(open_page):
    page = open_page(FORM)
    page.locator("#field-total_steps").fill("2000")
    page.get_by_role("textbox", name="Name", exact=True).fill("from-the-page")
    expect(page.locator("aside code")).to_contain_text("palaestra train cartpole run=from-the-page total_steps=2000")


def test_a_half_filled_form_survives_a_reload(open_page):
    page = open_page(FORM)
    page.locator("#field-seed").fill("23")
    expect(page.get_by_text("seed = 23")).to_be_visible()
    page.reload()
    expect(page.locator("#field-seed")).to_have_value("23")


def test_a_training_is_launched_watched_and_stopped_then_goes_on(open_page, serving):
    page = open_page(FORM)
    page.locator("#field-total_steps").fill("300000")
    page.get_by_role("textbox", name="Name", exact=True).fill("launched")
    start(page)()
    expect(page.get_by_role("heading", name="launched")).to_be_visible()
    expect(page.locator(".figures")).to_contain_text("running", timeout=90_000)
    expect(page.locator(".figures")).to_contain_text(re.compile(r"of 300 k · [1-9]\d* %"), timeout=90_000)

    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=90_000)
    run = serving.ask("/api/runs/launched")["run"]
    reached = run["agent_step"]
    assert 0 < reached < 300_000

    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".figures")).to_contain_text("running", timeout=90_000)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=90_000)
    assert serving.ask("/api/runs/launched")["run"]["agent_step"] >= reached


def test_change_and_train_lays_changes_over_what_the_former_run_requested(open_page, trained, serving):
    page = open_page(f"#/new?from={trained[0]}")
    expect(page.locator("#field-total_steps")).to_have_value("4096")
    page.locator("#field-seed").fill("5")
    page.get_by_role("textbox", name="Name", exact=True).fill("again")
    start(page)()
    expect(page.get_by_role("heading", name="again")).to_be_visible()
    found = serving.ask("/api/runs/again")
    assert found["config"]["seed"] == 5
    assert found["config"]["total_steps"] == 4096
    assert found["run"]["parent"] == trained[0]
    serving.wait_for("again", "finished")


def test_a_new_training_begins_with_the_weights_of_a_checkpoint(open_page, trained, serving):
    page = open_page(f"#/run/{trained[0]}/checkpoints")
    page.get_by_role("row").filter(has_text="latest").get_by_role("link", name="Continue from").click()
    expect(page.get_by_text(re.compile(rf"initial_weights = {trained[0]}:\d+"))).to_be_visible()
    page.locator("#field-total_steps").fill("512")
    page.get_by_role("textbox", name="Name", exact=True).fill("grandchild")
    start(page)()
    expect(page.get_by_role("heading", name="grandchild")).to_be_visible()
    run = serving.wait_for("grandchild", "finished")["id"]
    begun = [one for one in serving.ask(f"/api/runs/{run}/journal")["entries"] if one["event"] == "run.started"]
    assert trained[0] in json.dumps(begun[0]["data"]["initial_weights"])


SCRIPT = Path(__file__).parents[1] / "apps" / "scripts" / "scripts" / "ppo.py"


def test_the_arguments_of_a_script_become_the_form(open_page, serving):
    page = open_page("#/new?kind=cleanrl", allows="404")
    script = page.get_by_role("textbox", name="Path of the script")
    script.fill("/no/such/script.py")
    script.press("Enter")
    expect(page.get_by_role("alert").first).to_contain_text("/no/such/script.py")
    script.fill(str(SCRIPT))
    script.press("Enter")
    steps = page.locator("#field-total_timesteps")
    expect(steps).to_have_value("2048")
    steps.fill("1024")
    page.get_by_label("Name", exact=True).fill("untouched-script")
    expect(page.locator("aside code")).to_contain_text("total_timesteps=1024")
    start(page)()
    expect(page.get_by_role("heading", name="untouched-script")).to_be_visible()
    serving.wait_for("untouched-script", "finished")
    asked = serving.ask("/api/runs/untouched-script")["request"]["config"]
    assert asked == {"script": str(SCRIPT), "total_timesteps": 1024}
    expect(page.get_by_text("ppo · CartPole-v1 · seed 1 · cleanrl")).to_be_visible()
    expect(page.locator(".figures")).to_contain_text("of 1.02 k · 100 %")

    page = open_page("#/run/untouched-script/config")
    given = page.locator("tr.asked")
    expect(given).to_have_count(2)
    expect(given.filter(has_text="settings.total_timesteps")).to_contain_text("1024")


def test_a_script_is_chosen_from_a_checkout_that_was_scanned(open_page, tmp_path):
    checkout = tmp_path / "cleanrl"
    checkout.mkdir()
    (checkout / "dqn.py").write_text((SCRIPT.parent / "dqn.py").read_text())
    (checkout / "ppo_atari.py").write_text("import surely_not_installed\nclass Args:\n    env_id: str = 'X'\n")
    page = open_page("#/new?kind=cleanrl", allows="404")
    folder = page.get_by_role("textbox", name="Add the scripts of a checkout")
    folder.fill("/no/such/folder")
    page.get_by_role("button", name="Scan").click()
    expect(page.get_by_role("alert").first).to_contain_text("/no/such/folder")
    folder.fill(str(checkout))
    page.get_by_role("button", name="Scan").click()
    picker = page.get_by_role("combobox", name="Script", exact=True)
    expect(picker).to_contain_text("ppo_atari.py (needs surely_not_installed)")
    picker.select_option("dqn.py")
    expect(page.get_by_text("DQN, discrete actions. Its arguments are the settings below.")).to_be_visible()
    expect(page.locator("#field-n_atoms")).to_be_visible()

    page = open_page("#/new?kind=cleanrl")
    expect(page.get_by_role("combobox", name="Script", exact=True)).to_contain_text("dqn.py")
    page.get_by_role("combobox", name="Script", exact=True).select_option("Another file")
    expect(page.get_by_role("textbox", name="Path of the script")).to_be_visible()
