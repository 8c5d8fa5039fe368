"""The daemon as a process: starting, telling where it is, leaving; alone on its port and on its runs."""

import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest
from websockets.sync.client import connect

from palaestra.client.daemon_address import address_file, read_daemon_address, token_file
from palaestra.core.errors import UsageError
from palaestra.web.server import ServeSettings, open_listener

PROGRAM = (sys.executable, "-m", "palaestra", "serve")
TIMEOUT_SECONDS = 120.0  # a disk that is busy with something else can hold up a start for many seconds


@contextmanager
def serving(runs, *flags, expect=True):
    environment = {**os.environ, "PALAESTRA_RUNS_DIR": str(runs)}
    process = subprocess.Popen(
        [*PROGRAM, "--port", "0", "--json", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    try:
        yield process, _read_line(process) if expect else None
    finally:
        process.kill()
        process.communicate()


def _read_line(process):
    text = b""
    while not text.rstrip().endswith(b"}"):
        piece = process.stdout.read1(4096)
        assert piece, process.stderr.read().decode()
        text += piece
    return json.loads(text)


def leave(process, number=signal.SIGTERM, seconds=10):
    began = time.monotonic()
    process.send_signal(number)
    process.wait(seconds)
    return time.monotonic() - began


def bearer(runs):
    return {"authorization": f"Bearer {token_file(runs).read_text().strip()}"}


@pytest.mark.slow
def test_the_server_starts_quickly_without_torch_and_stops_with_viewers(tmp_path):
    with serving(tmp_path) as (process, ready), ExitStack() as stack:
        took = sum(psutil.Process(process.pid).cpu_times()[:2])  # what it takes by itself, whoever else is at work
        loaded = Path(f"/proc/{process.pid}/maps").read_text()
        assert [name for name in ("libtorch", "gymnasium") if name in loaded] == []
        assert httpx2.get(f"{ready['url']}/api/runs", headers=bearer(tmp_path)).json()["total"] == 0
        for _ in range(16):
            address = ready["url"].replace("http", "ws") + "/api/events"
            stack.enter_context(connect(address, additional_headers=bearer(tmp_path), proxy=None)).recv(
                timeout=TIMEOUT_SECONDS
            )
        memory = psutil.Process(process.pid).memory_info().rss
        left = leave(process)
        assert process.returncode == 0
        print(f"ready after {took:.2f} s of work, {memory / 2**20:.0f} MB, left in {left:.2f} s")
        assert memory < 120 * 2**20
        assert left < 3.0
        assert took < 3.0  # 1 s on an idle machine
    assert read_daemon_address(tmp_path) is None


@pytest.mark.slow
def test_the_server_prints_a_one_time_login_link(tmp_path):
    with serving(tmp_path) as (process, ready):
        assert set(ready) == {"url", "link", "runs"}
        assert ready["link"].startswith(ready["url"] + "/login?code=")
        assert [httpx2.get(ready["link"]).status_code for _ in range(2)] == [303, 401]
        daemon_address = read_daemon_address(tmp_path)
        assert (daemon_address.url, daemon_address.pid, daemon_address.is_current) == (ready["url"], process.pid, True)
        assert stat.S_IMODE(address_file(tmp_path).stat().st_mode) == 0o600
        leave(process, signal.SIGINT)
        assert process.returncode == 0
        reported, log = process.communicate()
        assert reported.strip() == b""
        code = ready["link"].partition("code=")[2]
        assert code.encode() not in log
        assert token_file(tmp_path).read_text().strip().encode() not in log


@pytest.mark.slow
def test_a_restarted_server_has_the_same_token_and_runs(tmp_path):
    with serving(tmp_path) as (process, ready):
        headers = bearer(tmp_path)
        body = {"recipe": "cartpole", "name": "one", "config": {"total_steps": 128}}
        assert (
            httpx2.post(f"{ready['url']}/api/runs", headers=headers, json=body, timeout=TIMEOUT_SECONDS).status_code
            == 201
        )
        process.kill()
        process.wait()
        assert read_daemon_address(tmp_path).is_current is False
    with serving(tmp_path) as (process, ready):
        assert bearer(tmp_path) == headers
        with httpx2.Client(base_url=ready["url"], headers=headers, timeout=TIMEOUT_SECONDS) as client:
            assert [run["name"] for run in client.get("/api/runs").json()["runs"]] == ["one"]
            deadline = time.monotonic() + 60
            while client.get("/api/runs/one").json()["run"]["state"] != "finished":
                assert time.monotonic() < deadline
                time.sleep(0.2)


@pytest.mark.slow
def test_a_second_server_is_refused_with_the_pid_of_the_first(tmp_path):
    with serving(tmp_path) as (first, _):
        with serving(tmp_path, expect=False) as (second, _):
            _, reported = second.communicate(timeout=TIMEOUT_SECONDS)
            assert second.returncode == 2
            assert f"process {first.pid}".encode() in reported
            assert b"Traceback" not in reported


@pytest.mark.fault("W12")
def test_a_used_port_is_reported_with_a_hint(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"Port {port} on 127.0.0.1 is in use") as caught:
            open_listener(ServeSettings(port=port), tmp_path)
        assert "--port 0" in caught.value.hint


def test_an_address_of_another_machine_is_refused(tmp_path):
    with pytest.raises(UsageError, match="Cannot bind"):
        open_listener(ServeSettings(host="192.0.2.1", port=0, allow_remote=True), tmp_path)
    with pytest.raises(UsageError, match="not an address of this machine"):
        open_listener(ServeSettings(host="no.such.host.invalid", port=0), tmp_path)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])
def test_remote_access_must_be_allowed_explicitly(host):
    with pytest.raises(UsageError, match="is reachable from other machines"):
        ServeSettings(host=host).check()
    ServeSettings(host=host, allow_remote=True).check()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_needs_no_option(host):
    ServeSettings(host=host).check()


def test_tls_needs_a_valid_certificate_and_key(tmp_path):
    with pytest.raises(UsageError, match="both a certificate and a key"):
        ServeSettings(certificate=tmp_path / "x").check()
    with pytest.raises(UsageError, match="Invalid TLS certificate"):
        ServeSettings(certificate=tmp_path / "x", key=tmp_path / "y").check()


def test_an_invalid_host_name_is_refused():
    with pytest.raises(UsageError, match="Invalid host name"):
        ServeSettings(names=("http://x",)).check()


@pytest.fixture
def certificate(tmp_path):
    paths = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(paths[1]), "-out", str(paths[0]), "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"], check=True, capture_output=True)
    return paths


@pytest.mark.slow
def test_with_tls_the_cookie_is_secure_and_the_client_trusts_the_certificate(tmp_path, certificate):
    runs = tmp_path / "runs"
    flags = ("--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1]))
    with serving(runs, *flags) as (_, ready):
        assert ready["url"].startswith("https://")
        trusting = ssl.create_default_context(cafile=str(certificate[0]))
        reply = httpx2.get(ready["link"], verify=trusting)
        assert "Secure" in reply.headers["set-cookie"]
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(ready["url"])
        environment = {**os.environ, "PALAESTRA_RUNS_DIR": str(runs)}
        top = [sys.executable, "-m", "palaestra", "top", "--json"]
        done = subprocess.run(top, env=environment, capture_output=True, text=True)
        assert (done.returncode, json.loads(done.stdout)["runs"]) == (0, []), done.stderr


@pytest.mark.fault("G12")
@pytest.mark.slow
def test_a_damaged_index_is_refused_until_repaired(tmp_path):
    home = tmp_path / ".palaestra"
    home.mkdir(mode=0o700)
    (home / "daemon.db").write_bytes(b"")
    with serving(tmp_path, expect=False) as (process, _):
        _, reported = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == 1
        assert b"palaestra repair" in reported
    environment = {**os.environ, "PALAESTRA_RUNS_DIR": str(tmp_path)}
    assert subprocess.run([sys.executable, "-m", "palaestra", "repair"], env=environment).returncode == 0
    with serving(tmp_path) as (_, ready):
        assert ready["url"]
