"""Every call of the client against a real daemon."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from palaestra.client.calls import Connection, connect, error_from_response
from palaestra.client.daemon_address import read_daemon_address, token_file
from palaestra.core.errors import NotFound, RunFailed, UsageError
from palaestra.core.worker_kind import RequestRefused


@pytest.fixture
def client(served):
    with connect(served) as client:
        yield client


def test_a_run_is_submitted_shown_and_removed(client, served):
    run = client.submit("cartpole", {"total_steps": 128, "ppo.gamma": 0.5}, name="first", submitted_by="python")
    assert (run["name"], run["submitted_by"]) == ("first", "python")
    shown = client.run("first")
    assert shown["request"]["config"] == {"total_steps": 128, "ppo": {"gamma": 0.5}}
    assert [one["id"] for one in client.runs(search="first")] == [run["id"]]
    assert client.listing(limit=1)["total"] >= 1
    assert client.stop("first")["state"] in {"cancelled", "stopping", "running", "finished"}
    assert client.change("first", tags=["x"])["tags"] == ["x"]


def test_a_waiting_run_is_cancelled_retried_cloned_and_removed(client):
    busy = [client.submit("cartpole", {"total_steps": 1e7})["id"] for _ in range(3)]  # more than there are cores
    waiting = client.submit("cartpole", {"total_steps": 128}, name="waiting")
    assert client.cancel(waiting["id"])["state"] == "cancelled"
    assert client.retry(waiting["id"])["state"] == "queued"
    assert client.cancel(waiting["id"])["state"] == "cancelled"
    clone = client.clone(waiting["id"], "clone", {"ppo.gamma": 0.25})
    assert client.run("clone")["request"]["config"] == {"total_steps": 128, "ppo": {"gamma": 0.25}}
    assert client.rerun_latest()["name"] != clone["name"]
    client.remove(waiting["id"])
    with pytest.raises(NotFound):
        client.run(waiting["id"])
    for run in client.runs(state=["queued", "running"]):
        client.stop(run["id"], 0)
    assert len(busy) == 3


def test_errors_have_the_class_of_a_local_call(client):
    with pytest.raises(RequestRefused) as caught:
        client.submit("cartpole", {"ppo.gama": 1, "device": "tpu"})
    assert sorted(complaint.key for complaint in caught.value.field_errors) == ["device", "ppo.gama"]
    assert len(client.check("cartpole", config={"x": 1})["errors"]) == 1
    for word in ("nobody", "../x", "a/b?c=d#e", "ä ö", "%2e%2e"):
        with pytest.raises(NotFound):
            client.run(word)


def test_system_recipes_and_login_links_are_returned(client):
    assert client.system()["runs_root"]
    assert "cartpole" in {recipe["name"] for recipe in client.recipes()}
    assert client.login_link().startswith(client.url + "/login?code=")


def test_the_environment_can_name_a_daemon_elsewhere(served, monkeypatch):
    monkeypatch.setenv("PALAESTRA_DAEMON", read_daemon_address(served).url)
    monkeypatch.delenv("PALAESTRA_DAEMON_TOKEN", raising=False)
    with pytest.raises(UsageError, match="PALAESTRA_DAEMON_TOKEN is not"):
        connect()
    monkeypatch.setenv("PALAESTRA_DAEMON_TOKEN", token_file(served).read_text().strip())
    with connect() as client:
        assert client.system()["pid"]
    monkeypatch.setenv("PALAESTRA_DAEMON_TOKEN", "wrong")
    with connect() as client, pytest.raises(UsageError, match="does not accept this token"):
        client.system()


def test_without_a_daemon_the_error_says_how_to_start_one(tmp_path):
    with pytest.raises(NotFound, match="No daemon is running"):
        connect(tmp_path)


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        if self.server.hang_up:
            self.server.hang_up = False
            self.close_connection = True
            return
        status, content = self.server.answer
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.asked, server.hang_up, server.answer = [], False, (200, b"{}")
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def connection(server):
    connection = Connection(server.url, "secret")
    yield connection
    connection.close()


def test_requests_are_sent_as_json_with_the_token(server, connection):
    server.answer = (200, json.dumps({"ä": [1]}).encode())
    assert connection.post("/api/x", {"a": "ü"}) == {"ä": [1]}
    method, path, headers, body = server.asked[0]
    named = {name.lower(): value for name, value in headers.items()}
    assert (method, path, json.loads(body)) == ("POST", "/api/x", {"a": "ü"})
    assert (named["authorization"], named["content-type"]) == ("Bearer secret", "application/json")


def test_a_query_omits_empty_values_and_repeats_lists(server, connection):
    connection.get("/api/runs", {"state": ["a", "b"], "search": "", "kind": None, "limit": 5})
    assert server.asked[0][1] == "/api/runs?state=a&state=b&limit=5"


def test_an_empty_response_is_none(server, connection):
    server.answer = (204, b"")
    assert connection.request("DELETE", "/api/runs/x") is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, NotFound),
        (401, UsageError),
        (409, UsageError),
        (422, UsageError),
        (503, RunFailed),
        (507, RunFailed),
        (500, RunFailed),
    ],
)
def test_an_error_response_becomes_a_palaestra_error(server, connection, status, kind):
    server.answer = (status, json.dumps({"error": {"message": "no", "hint": "yes", "fields": []}}).encode())
    with pytest.raises(kind) as caught:
        connection.get("/x")
    assert "no" in caught.value.message
    assert caught.value.hint == "yes"


def test_all_field_errors_are_returned():
    fields = [{"key": "a", "message": "b", "hint": "c"}, {"key": "d", "message": "e"}]
    error = error_from_response(422, {"error": {"message": "", "fields": fields}})
    assert isinstance(error, RequestRefused)
    assert [(one.key, one.message, one.hint) for one in error.field_errors] == [("a", "b", "c"), ("d", "e", "")]
    assert error.exit_code == 2


def test_a_field_error_keeps_its_exit_code():
    fields = [{"key": "python", "message": "ppo.py needs ale_py.", "hint": "", "exit_code": 4}]
    assert error_from_response(422, {"error": {"message": "", "fields": fields}}).exit_code == 4


@pytest.mark.parametrize("data", [None, [], {}, {"error": 5}, {"error": {}}])
def test_an_error_without_a_message_gets_one(data):
    assert "status 418" in error_from_response(418, data).message


def test_a_response_that_is_not_json_is_refused(server, connection):
    server.answer = (200, b"<html>")
    with pytest.raises(RunFailed, match="not a Palaestra daemon"):
        connection.get("/x")


def test_a_get_is_retried_on_a_closed_connection_and_a_post_is_not(server, connection):
    assert connection.get("/first") == {}
    server.hang_up = True
    assert connection.get("/second") == {}
    server.hang_up = True
    with pytest.raises(NotFound, match="No daemon responds"):
        connection.post("/third")
    assert [path for _, path, _, _ in server.asked] == ["/first", "/second", "/second", "/third"]


def test_an_unreachable_daemon_is_reported():
    with pytest.raises(NotFound, match="No daemon responds at http://127.0.0.1:9"):
        Connection("http://127.0.0.1:9", "x").get("/api/system")


@pytest.mark.parametrize("url", ["", "127.0.0.1:7878", "ftp://x", "http://", "file:///etc/passwd", "http://x/path"])
def test_an_invalid_url_is_refused(url):
    with pytest.raises(UsageError, match="Invalid daemon URL"):
        Connection(url, "x")
