"""What `palaestra serve` refuses before it starts; tests/web/test_server.py has the rest."""

import logging
import socket

import pytest

from palaestra.cli import serve
from palaestra.cli.serve import OneLine
from palaestra.web.server import ServerInfo


def test_other_machines_need_a_word(call, workplace):
    code, out, err = call("serve", "--host", "0.0.0.0")
    assert (code, out) == (2, "")
    assert "--allow-remote" in err
    assert list(workplace.iterdir()) == []


@pytest.mark.fault("W12")
def test_a_port_in_use_is_reported(call):
    with socket.create_server(("127.0.0.1", 0)) as other:
        code, out, err = call("serve", "--port", str(other.getsockname()[1]))
    assert (code, out) == (2, "")
    assert "is in use" in err
    assert "--port 0" in err


@pytest.mark.parametrize(
    "flags", [("--port", "-1"), ("--port", "x"), ("--tls-cert", "x"), ("--name", "a b"), ("--port", "70000")]
)
def test_flags_that_cannot_be_are_refused(call, flags, monkeypatch):
    monkeypatch.setattr(serve, "run_server", lambda root, settings, announce: pytest.fail("it was started"))
    code, out, _ = call("serve", *flags)
    assert (code, out) == (2, "")


def test_what_is_reported_when_it_is_ready(call, monkeypatch, workplace):

    opened = []
    monkeypatch.setattr(serve.webbrowser, "open", opened.append)
    ready = ServerInfo("http://127.0.0.1:1", "http://127.0.0.1:1/login?code=x", workplace)
    monkeypatch.setattr(serve, "run_server", lambda root, settings, announce: announce(ready))
    code, out, err = call("serve", "--open")
    assert (code, err, len(out.splitlines())) == (0, "", 1)
    assert ready.url in out
    assert ready.link in out
    assert opened == [ready.link]


def test_the_network_is_warned_of_loudly(call, monkeypatch):
    monkeypatch.setattr(serve, "run_server", lambda root, settings, announce: None)
    _, _, err = call("serve", "--host", "0.0.0.0", "--allow-remote")
    assert err.startswith("WARNING: other machines can reach this daemon on 0.0.0.0, WITHOUT TLS")


def test_a_log_record_is_one_line():
    record = logging.LogRecord("x", logging.INFO, "", 0, "a\nb\x1b[31m\u202e", None, None)
    assert OneLine("%(message)s").format(record) == r"a\nb\x1b[31m\u202e"
