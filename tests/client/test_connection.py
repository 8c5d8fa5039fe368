"""The client against a server that answers what the test says."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from palaestra.client.connection import Connection, refusal_of
from palaestra.core.errors import NotFound, RunFailed, UsageError
from palaestra.core.worker_kind import RequestRefused


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


def test_what_is_asked_goes_out_as_json_with_the_token(server, connection):
    server.answer = (200, json.dumps({"ä": [1]}).encode())
    assert connection.post("/api/x", {"a": "ü"}) == {"ä": [1]}
    method, path, headers, body = server.asked[0]
    named = {name.lower(): value for name, value in headers.items()}
    assert (method, path, json.loads(body)) == ("POST", "/api/x", {"a": "ü"})
    assert (named["authorization"], named["content-type"]) == ("Bearer secret", "application/json")


def test_a_query_leaves_out_what_is_not_said_and_repeats_lists(server, connection):
    connection.get("/api/runs", {"state": ["a", "b"], "search": "", "kind": None, "limit": 5})
    assert server.asked[0][1] == "/api/runs?state=a&state=b&limit=5"


def test_an_empty_answer_is_none(server, connection):
    server.answer = (204, b"")
    assert connection.ask("DELETE", "/api/runs/x") is None


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
def test_a_refusal_is_an_error_of_the_house(server, connection, status, kind):
    server.answer = (status, json.dumps({"error": {"message": "no", "hint": "yes", "fields": []}}).encode())
    with pytest.raises(kind) as caught:
        connection.get("/x")
    assert "no" in caught.value.message
    assert caught.value.hint == "yes"


def test_all_complaints_come_back():
    fields = [{"key": "a", "message": "b", "hint": "c"}, {"key": "d", "message": "e"}]
    error = refusal_of(422, {"error": {"message": "", "fields": fields}})
    assert isinstance(error, RequestRefused)
    assert [(one.key, one.message, one.hint) for one in error.field_errors] == [("a", "b", "c"), ("d", "e", "")]
    assert error.exit_code == 2


def test_a_complaint_keeps_its_exit_code():
    fields = [{"key": "python", "message": "ppo.py needs ale_py.", "hint": "", "exit_code": 4}]
    assert refusal_of(422, {"error": {"message": "", "fields": fields}}).exit_code == 4


@pytest.mark.parametrize("data", [None, [], {}, {"error": 5}, {"error": {}}])
def test_a_refusal_without_words_still_has_some(data):
    assert "status 418" in refusal_of(418, data).message


def test_what_is_no_json_is_no_daemon(server, connection):
    server.answer = (200, b"<html>")
    with pytest.raises(RunFailed, match="no daemon of ours"):
        connection.get("/x")


def test_reading_is_tried_again_on_a_connection_that_was_closed_and_writing_is_not(server, connection):
    assert connection.get("/first") == {}
    server.hang_up = True
    assert connection.get("/second") == {}
    server.hang_up = True
    with pytest.raises(NotFound, match="No daemon answers"):
        connection.post("/third")
    assert [path for _, path, _, _ in server.asked] == ["/first", "/second", "/second", "/third"]


def test_nobody_there_is_said():
    with pytest.raises(NotFound, match="No daemon answers at http://127.0.0.1:9"):
        Connection("http://127.0.0.1:9", "x").get("/api/system")


@pytest.mark.parametrize("url", ["", "127.0.0.1:7878", "ftp://x", "http://", "file:///etc/passwd", "http://x/path"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(UsageError, match="no address of a daemon"):
        Connection(url, "x")
