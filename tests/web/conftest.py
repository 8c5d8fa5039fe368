"""A house with a real daemon behind it, and callers with and without a token."""

from __future__ import annotations

import sys
import textwrap

import pytest
from starlette.testclient import TestClient

from palaestra.contracts.run import RunRequest
from palaestra.contracts.worker_kind import Complaint, Prepared, RequestRefused, Resources
from palaestra.daemon.service import Daemon
from palaestra.daemon.settings import DaemonSettings
from palaestra.runs.store import RunStore
from palaestra.web.app import build_app
from palaestra.web.house import House
from palaestra.web.login import LoginCodes
from palaestra.web.place import Place
from palaestra.web.tokens import TokenFile

PORT = 7878

SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("started", flush=True)
time.sleep({seconds})
"""


class NapKind:
    """A worker that sleeps for as long as its config says."""

    name = "nap"

    def schema(self):
        return {"type": "object", "properties": {"seconds": {"type": "number", "default": 0}}}

    def prepare(self, request, machine, runs_root):
        unknown = [key for key in request.config if key not in {"seconds", "seed"}]
        if unknown:
            raise RequestRefused([Complaint(key, f"No key is called '{key}'.") for key in unknown])
        config = {"seconds": request.config.get("seconds", 0), "seed": request.config.get("seed", 1)}
        return Prepared(request, config, Resources(1, 0, 0))

    def command(self, run_directory):
        seconds = RunStore(run_directory.parent)  # noqa: F841
        return [sys.executable, "-c", textwrap.dedent(SCRIPT).format(seconds=60)]


@pytest.fixture
def daemon(tmp_path):
    settings = DaemonSettings(machine=Resources(cpus=1), grace_seconds=1.0)
    with Daemon(tmp_path / "runs", settings, kinds={"nap": NapKind()}) as daemon:
        yield daemon
        for entry in daemon.runs():
            if not entry.state.is_over:
                daemon.stop(entry.id, 0)


@pytest.fixture
def house(daemon):
    token = TokenFile(daemon.root / ".palaestra" / "token")
    token.ensure()
    return House(daemon, token, LoginCodes(), Place("127.0.0.1", PORT))


@pytest.fixture
def stranger(house):
    """Somebody without a token, at the right address."""
    with TestClient(build_app(house), base_url=house.place.url, follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(house, stranger):
    stranger.headers["authorization"] = f"Bearer {house.token.read()}"
    return stranger


@pytest.fixture
def make_run(daemon):
    """A run that somebody else made, known to the daemon; nothing is started."""

    def make(name="first", kind="native", recipe="cartpole", config=None):
        directory = RunStore(daemon.root).create(RunRequest(kind, recipe, {}, name), config or {"seed": 1})
        daemon._supervisor.gather()
        return directory

    return make
