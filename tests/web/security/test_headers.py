import pytest
from starlette.testclient import WebSocketDenialResponse

from palaestra.web.security.headers import CONTENT_POLICY, PAGE_POLICY, add_security_headers
from palaestra.web.security.login import login_link

WANTED = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/assets/x.js"),
        ("GET", "/favicon.svg"),
        ("GET", "/login?code=x"),
        ("GET", "/api/system"),
        ("GET", "/api/openapi.json"),
        ("GET", "/api/nowhere"),
        ("GET", "/api/runs/nobody"),
        ("DELETE", "/api/system"),
        ("POST", "/api/runs"),
        ("OPTIONS", "/api/runs"),
    ],
)
def test_every_response_has_the_security_headers(client, anonymous, method, path):
    with_token = client.request(method, path)
    del anonymous.headers["authorization"]
    for reply in (with_token, anonymous.request(method, path), anonymous.request(method, path, headers={"host": "x"})):
        assert {name: reply.headers[name] for name in WANTED} == WANTED
        assert reply.headers["content-security-policy"] in {CONTENT_POLICY, PAGE_POLICY}
        assert "server" not in reply.headers


def test_login_has_the_security_headers(context, anonymous):
    reply = anonymous.get(login_link(context.address.url, context.codes))
    assert reply.status_code == 303
    assert {name: reply.headers[name] for name in WANTED} == WANTED
    assert reply.headers["cache-control"] == "no-store"


def test_a_socket_refused_with_a_response_has_the_security_headers(client):
    with (
        pytest.raises(WebSocketDenialResponse) as refused,
        client.websocket_connect("ws://127.0.0.1:7878/api/events", headers={"host": "evil.example"}),
    ):
        pass
    assert refused.value.status_code == 421
    assert {name: refused.value.headers[name] for name in WANTED} == WANTED


def test_an_internal_error_has_the_security_headers_and_no_details(context, client, monkeypatch):
    def broken():
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(context.daemon, "slots", broken)
    with pytest.raises(ZeroDivisionError):
        client.get("/api/system")
    client._transport.raise_server_exceptions = False
    reply = client.get("/api/system")
    assert reply.status_code == 500
    assert "secret detail" not in reply.text
    assert reply.headers["content-security-policy"] == CONTENT_POLICY


@pytest.mark.fault("W10")
def test_the_content_security_policy_is_unchanged():
    assert CONTENT_POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


def test_headers_set_by_a_response_are_stored():
    own = [(b"Content-Security-Policy", b"sandbox")]
    found = add_security_headers(own)
    assert [value for name, value in found if name.lower() == b"content-security-policy"] == [b"sandbox"]
    assert own == [(b"Content-Security-Policy", b"sandbox")]
