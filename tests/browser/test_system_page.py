"""The system page: the machine, the queue, and a real Ray cluster whose worker dies."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import VIEW, Serving

pytestmark = pytest.mark.slow


def test_the_machine_and_the_queue_are_shown_and_no_cluster_where_there_is_none(open_page, barriers):
    page = open_page("#/system")
    expect(page.get_by_role("heading", name="Machine")).to_be_visible()
    expect(page.get_by_role("heading", name="Ray cluster")).to_have_count(0)
    assert barriers(page) == []


@pytest.fixture
def cluster(tmp_path):
    """A head with two processors in a home of its own, and the variables that others need to find it."""
    variables = {"HOME": str(tmp_path)}
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    command = [sys.executable, "-m", "palaestra", "worker", "--head", "--cpus", "2", "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    head = subprocess.Popen(command, env={**environment, **variables}, stdout=subprocess.PIPE, text=True)
    assert f"127.0.0.1:{port}" in head.stdout.readline()
    yield head, {**variables, "RAY_ADDRESS": f"127.0.0.1:{port}"}
    head.terminate()
    head.wait(timeout=60)
    head.stdout.close()


@pytest.mark.full
def test_nodes_and_work_of_a_real_cluster_are_shown_and_its_end_is_reported(built_page, browser, cluster, tmp_path):
    head, variables = cluster
    serving = Serving(tmp_path, variables=variables)
    serving.start()
    context = browser.new_context(viewport=VIEW)
    try:
        context.request.post(
            f"{serving.url}/api/login", data={"token": serving._token}, headers={"Origin": serving.url}
        )
        page = context.new_page()
        page.goto(f"{serving.url}/#/system")
        panel = page.locator("section", has=page.get_by_role("heading", name="Ray cluster"))
        expect(panel).to_contain_text(variables["RAY_ADDRESS"])
        row = panel.get_by_role("row").filter(has_text="127.0.0.1")
        expect(row).to_contain_text("(head)", timeout=120_000)
        expect(row).to_contain_text("up")
        expect(row).to_contain_text("0 / 2")
        expect(row).to_contain_text("same")
        page.screenshot(path=str(tmp_path / "cluster.png"))
        head.terminate()
        head.wait(timeout=60)
        expect(panel.get_by_role("alert")).to_be_visible(timeout=240_000)
        expect(row).to_be_visible()  # the last state that is known stays
    finally:
        context.close()
        serving.stop()
