"""Coming in: by the link, by the token, and what is said when neither is right."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


def test_a_wrong_token_is_refused_in_its_place_and_the_right_one_lets_in(open_page, serving):
    page = open_page("#/system", is_signed_in=False, allows="401")
    page.get_by_label("Token").fill("not the token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("token")
    expect(page.get_by_label("Token")).to_have_value("not the token")

    page.get_by_label("Token").fill(serving.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="System")).to_be_visible()


def test_signing_out_shows_nothing_more(open_page):
    page = open_page("#/runs", allows="401")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("table")).to_have_count(0)


def test_the_printed_link_signs_in(open_page, serving):
    page = open_page("", is_signed_in=False, allows="401")
    page.goto(serving.ready["link"])
    expect(page).to_have_url(re.compile(rf"^{re.escape(serving.url)}/(#.*)?$"))
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
