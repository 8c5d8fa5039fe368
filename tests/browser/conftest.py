"""A real Chromium on a real daemon with real trainings. Every page is watched for what it must never do."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error, expect, sync_playwright

ROOT = Path(__file__).parents[2]
AXE = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 120.0  # seconds; two cores may be shared by many
VIEW = {"width": 1280, "height": 860}


def load_page_builder():
    spec = importlib.util.spec_from_file_location("page", ROOT / "ui" / "page.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["page"] = module  # dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


def plain_environment():
    """As a person's: settings that other tests of this process made for themselves are not the daemon's."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PALAESTRA_")}


@dataclass
class Serving:
    """`palaestra serve` as a process of its own, with the few questions that tests ask beside the browser."""

    folder: Path
    port: int = 0
    process: subprocess.Popen[str] | None = None
    ready: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {**plain_environment(), **self.variables}

    def start(self) -> None:
        arguments = [sys.executable, "-m", "palaestra", "serve", "--port", str(self.port), "--json"]
        with (self.folder / "serve.log").open("a") as log:
            self.process = subprocess.Popen(
                arguments, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        text = ""
        for line in self.process.stdout:
            text += line
            if line.startswith("}"):
                break
        self.ready = json.loads(text)
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)
        self.process.stdout.close()

    @property
    def url(self) -> str:
        return self.ready["url"]

    @property
    def token(self) -> str:
        arguments = [sys.executable, "-m", "palaestra", "token"]
        done = subprocess.run(
            arguments, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout.split()[-1]

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.loads(reply.read() or b"null")

    @property
    def _token(self) -> str:
        if not hasattr(self, "_known"):
            self._known = self.token
        return self._known

    def train(self, name: str, **config: Any) -> str:
        body = {"kind": "native", "recipe": "cartpole", "name": name, "config": config}
        return self.ask("/api/runs", body)["run"]["id"]

    def end_runs(self) -> None:
        """Runs outlive their daemon, so whoever started them ends them."""
        for state in ("queued", "running", "stopping"):  # in this order none is started meanwhile
            for run in self.ask(f"/api/runs?state={state}&limit=100")["runs"]:
                self._end(run["id"])

    def _end(self, run: str) -> None:
        with contextlib.suppress(urllib.error.HTTPError):  # it has just ended by itself
            self.ask(f"/api/runs/{run}/stop", {"grace_seconds": 0})
        self.wait_for(run, "finished", "failed", "cancelled", "lost")

    def wait_for(self, run: str, *states: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = self.ask(f"/api/runs/{run}")["run"]
            if found["state"] in states:
                return found
            time.sleep(0.2)
        raise AssertionError(f"{run} is {found['state']} and not {states}: {found['failure']}")


@pytest.fixture(scope="session")
def built_page(tmp_path_factory):
    """Built from the sources that are here; skipped where there is no Node to build it with."""
    builder = load_page_builder()
    with (tmp_path_factory.getbasetemp().parent / "page.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of pytest have one page
        try:
            builder.build_page()
        except builder.NotBuilt as reason:
            pytest.skip(f"the page cannot be built: {reason}")


@pytest.fixture(scope="session")
def browser():
    program = os.environ.get("PALAESTRA_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except Error as error:
            pytest.skip(
                f"no Chromium can be started ({str(error).splitlines()[0]}); on Debian: apt-get install chromium"
            )
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def serving(built_page, tmp_path_factory):
    found = Serving(tmp_path_factory.mktemp("serving"))
    found.start()
    yield found
    found.end_runs()
    found.stop()


@pytest.fixture(scope="session")
def barriers():
    """barriers(page): what keeps somebody from using the page, seriously or worse, as axe-core finds it."""

    def find(page):
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run(document)")
        assert len(found["passes"]) > 10  # it has looked
        grave = [one for one in found["violations"] if one["impact"] in {"serious", "critical"}]
        return [(one["id"], one["nodes"][0]["html"], one["nodes"][0]["failureSummary"]) for one in grave]

    return find


@pytest.fixture(scope="session")
def trained(serving):
    """Two seeds of one configuration, finished, with a few checkpoints and evaluations each."""
    config = {
        "total_steps": 4096,
        "evaluate_interval": 4,
        "evaluation": {"episodes": 2},
        "checkpoints": {"save_interval": 4},
    }
    runs = [serving.train(f"twin-{seed}", seed=seed, **config) for seed in (1, 2)]
    for run in runs:
        serving.wait_for(run, "finished")
    return runs


@pytest.fixture
def train(serving):
    """Begins runs. What a story began, by this or in the page, ends with it: all share a daemon of two slots."""
    yield serving.train
    serving.end_runs()


@pytest.fixture
def open_page(browser, serving, train):
    """open_page("#/runs"): a signed-in page. Afterwards it must have been silent, and asked nobody but the daemon."""
    contexts, complaints = [], []

    def open_one(location: str = "", *, is_signed_in: bool = True, allows: str = "", **options: Any):
        context = (
            browser.new_context(viewport=VIEW, **options)
            if "viewport" not in options
            else browser.new_context(**options)
        )
        contexts.append(context)
        context.set_default_timeout(30_000)
        if is_signed_in:
            origin = {"Origin": serving.url}
            reply = context.request.post(f"{serving.url}/api/login", data={"token": serving._token}, headers=origin)
            assert reply.ok
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"error in the page: {error}"))
        page.on(
            "console",
            lambda reported: (
                complaints.append(f"console: {reported.text}")
                if reported.type in {"error", "warning"} and not (allows and allows in reported.text)
                else None
            ),
        )
        page.on(
            "request",
            lambda requested: (
                complaints.append(f"outside: {requested.url}")
                if not requested.url.startswith((serving.url, serving.url.replace("http", "ws"), "blob:", "data:"))
                else None
            ),
        )
        page.goto(f"{serving.url}/{location}")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


expect.set_options(timeout=30_000)
