"""A house with a real daemon behind it, and callers with and without a token."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sys
import textwrap
import threading
from dataclasses import replace

import jsonschema_rs
import pytest
from starlette.testclient import TestClient

from palaestra.checkpoints.durable import commit
from palaestra.checkpoints.files import model_name
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.run import RunRequest
from palaestra.core.spaces import DiscreteSpec, EnvInterface, encode_interface
from palaestra.core.worker_kind import FieldError, Prepared, RequestRefused, Resources
from palaestra.daemon.service import Daemon
from palaestra.daemon.settings import DaemonSettings
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config
from palaestra.runs.store import RunStore
from palaestra.web.app import all_routes, build_app
from palaestra.web.context import AppContext
from palaestra.web.openapi import build_openapi
from palaestra.web.security.login import LoginCodes
from palaestra.web.security.origin import ServerAddress
from palaestra.web.security.tokens import TokenFile
from palaestra.web.server import Server, ServeSettings, open_listener

PORT = 7878
TIMEOUT_SECONDS = 60.0  # far beyond what anything here takes, also on a busy machine

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
            raise RequestRefused([FieldError(key, f"No key named '{key}'.") for key in unknown])
        config = {"seconds": request.config.get("seconds", 0), "seed": request.config.get("seed", 1)}
        return Prepared(request, config, Resources(1, 0, 0))

    def command(self, run_directory):
        seconds = read_config(RunDirectory(run_directory))["seconds"]
        return [sys.executable, "-c", textwrap.dedent(SCRIPT).format(seconds=float(seconds))]


@pytest.fixture
def daemon(tmp_path):
    settings = DaemonSettings(machine=Resources(cpus=1), grace_seconds=1.0)
    with Daemon(tmp_path / "runs", settings, kinds={"nap": NapKind()}) as daemon:
        yield daemon
        for entry in daemon.runs():
            if not entry.state.is_over:
                daemon.stop(entry.id, 0)


@pytest.fixture
def context(daemon):
    token = TokenFile(daemon.root / ".palaestra" / "token")
    token.ensure()
    return AppContext(daemon, token, LoginCodes(), ServerAddress("127.0.0.1", PORT))


class DeclaredResponses:
    """What the OpenAPI document says of every response; the page's types are generated from the same schemas."""

    def __init__(self):
        self.document = build_openapi(all_routes())
        self.paths = {re.compile(re.sub(r"\{\w+\}", "[^/]+", path)): path for path in self.document["paths"]}
        self.validators = {}

    def check(self, response):
        """For every JSON response that a test gets: it has the declared type."""
        path = next((self.paths[one] for one in self.paths if one.fullmatch(response.request.url.path)), None)
        is_json = response.headers.get("content-type") == "application/json"
        if path is None or not is_json or response.request.method == "HEAD":
            return
        location = (path, response.request.method.lower(), str(response.status_code))
        if location not in self.validators:  # made once: that takes longer than the request
            self.validators[location] = self.validator(*location)
        self.validators[location].validate(json.loads(response.read()))

    def validator(self, path, method, status):
        declared = self.document["paths"][path].get(method, {"responses": {}})["responses"].get(status, {})
        if "$ref" in declared:
            declared = self.document["components"]["responses"][declared["$ref"].rpartition("/")[2]]
        schema = declared.get("content", {}).get("application/json", {}).get("schema", {})
        return jsonschema_rs.Draft202012Validator({**schema, "components": self.document["components"]})


@pytest.fixture(scope="session")
def declared_responses():
    return DeclaredResponses()


@pytest.fixture
def anonymous(context, declared_responses):
    """Somebody without a token, at the right address."""
    with TestClient(build_app(context), base_url=context.address.url, follow_redirects=False) as client:
        client.event_hooks = {"response": [declared_responses.check]}
        yield client


@pytest.fixture
def client(context, anonymous):
    anonymous.headers["authorization"] = f"Bearer {context.token.read()}"
    return anonymous


class Live:
    """A real server on a real port, in a thread of its own."""

    def __init__(self, context, server):
        self.context, self.server = context, server
        self.port, self.url = context.address.port, context.address.url
        self.bearer = {"authorization": f"Bearer {context.token.read()}"}

    def raw(self, content, seconds=TIMEOUT_SECONDS):
        """Send bytes, read until the other side closes; None when it does not within `seconds`."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            reply = b""
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(content)
            try:
                while piece := connection.recv(65536):
                    reply += piece
            except TimeoutError:
                return None
            except ConnectionResetError:
                pass
            return reply

    def head(self, method="GET", path="/api/system", **headers):
        """Request line and headers, with the token."""
        named = {"host": f"127.0.0.1:{self.port}", **self.bearer, "connection": "close", **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in named.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


@pytest.fixture
def live(context, daemon):
    listener = open_listener(ServeSettings(port=0), daemon.root)
    context = replace(context, address=ServerAddress("127.0.0.1", listener.getsockname()[1]))
    ready = threading.Event()
    server = Server(build_app(context), None, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    assert ready.wait(TIMEOUT_SECONDS)
    yield Live(context, server)
    server.should_exit = True
    thread.join(TIMEOUT_SECONDS)
    assert not thread.is_alive()


@pytest.fixture
def make_run(daemon):
    """A run that somebody else made, known to the daemon; nothing is started."""

    def make(name="first", kind="native", recipe="cartpole", config=None):
        directory = RunStore(daemon.root).create(RunRequest(kind, recipe, {}, name), config or {"seed": 1})
        daemon._supervisor.scan_all()
        return directory

    return make


@pytest.fixture
def save_checkpoint():
    """A checkpoint with weights that safetensors would read, made without torch."""

    def save(directory, epoch=10, score=1.5, **changes):
        header = json.dumps({"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
        weights = len(header).to_bytes(8, "little") + header + bytes(range(epoch % 200, epoch % 200 + 16))
        fields = {
            "epoch": epoch,
            "agent_step": epoch * 100,
            "total_time": 1.0,
            "run": directory.id,
            "run_name": "first",
            "saved_at": 1000.0 + epoch,
            "policy": {"graph": "mlp"},
            "env": {"id": "CartPole-v1"},
            "interface": encode_interface(EnvInterface(DiscreteSpec(4), DiscreteSpec(2))),
            "score": score,
        }
        return commit(directory.checkpoints, epoch, {model_name(epoch): weights}, Checkpoint(**{**fields, **changes}))

    return save
