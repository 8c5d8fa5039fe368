from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from palaestra.web.app import build_app
from palaestra.web.openapi import build_openapi
from palaestra.web.security.login import ROUTES, LoginCodes, cookie_name, login_link
from palaestra.web.security.origin import ServerAddress
from palaestra.web.security.tokens import cookie_value


def test_a_code_works_once():
    codes = LoginCodes()
    code = codes.make()
    assert [codes.use(code), codes.use(code), codes.use(""), codes.use("x")] == [True, False, False, False]


def test_a_code_expires():
    now = [0.0]
    codes = LoginCodes(lambda: now[0])
    young, old = codes.make(), codes.make()
    now[0] = 599.0
    assert codes.use(young)
    now[0] = 600.0  # ten minutes, as the page says
    assert not codes.use(old)


def test_the_number_of_codes_is_limited():
    codes = LoginCodes()
    made = [codes.make() for _ in range(33)]
    assert not codes.use(made[0])
    assert codes.use(made[1])


def test_the_link_signs_in_once_and_redirects_to_the_page(context, anonymous):
    link = login_link(context.address.url, context.codes)
    reply = anonymous.get(link)
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    cookie = reply.headers["set-cookie"]
    assert cookie.startswith(f"{cookie_name(context.address.port)}={cookie_value(context.token.read())};")
    assert {"HttpOnly", "SameSite=strict", "Path=/", "Max-Age=2592000"} <= {part.strip() for part in cookie.split(";")}
    assert anonymous.get("/api/system").status_code == 200  # the cookie came along
    anonymous.cookies.clear()
    again = anonymous.get(link)
    assert (again.status_code, "set-cookie" in again.headers) == (401, False)
    assert "palaestra token --link" in again.text


def test_a_head_request_does_not_use_a_link(context, anonymous):
    link = login_link(context.address.url, context.codes)
    assert anonymous.head(link).status_code == 401
    assert anonymous.get(link).status_code == 303


@pytest.mark.parametrize("query", ["", "?code=", "?code=x", "?code=x&code=y", "?cod=x", "?code=%ff"])
def test_a_wrong_code_is_refused(anonymous, query):
    reply = anonymous.get(f"/login{query}")
    assert reply.status_code in {400, 401, 422}
    assert "set-cookie" not in reply.headers


def test_the_token_signs_in_and_a_wrong_one_does_not(context, anonymous):
    assert anonymous.post("/api/login", json={"token": "wrong"}).status_code == 401
    reply = anonymous.post("/api/login", json={"token": context.token.read()})
    assert (reply.status_code, "HttpOnly" in reply.headers["set-cookie"]) == (204, True)
    assert anonymous.get("/api/system").status_code == 200


def test_logout_deletes_the_cookie(context, anonymous):
    anonymous.post("/api/login", json={"token": context.token.read()})
    reply = anonymous.post("/api/logout", json={}, headers={"origin": context.address.url})
    assert reply.status_code == 204
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in reply.headers["set-cookie"].split(";")}
    assert anonymous.get("/api/system").status_code == 401


def test_a_signed_in_client_gets_another_link(context, client, anonymous):
    link = client.post("/api/login/link", json={}).json()["link"]
    del anonymous.headers["authorization"]
    assert anonymous.get(link).status_code == 303


def test_with_tls_the_cookie_is_secure(context, client):
    secure = replace(context, address=ServerAddress("127.0.0.1", 7878, "https"))
    with TestClient(build_app(secure), base_url=secure.address.url, follow_redirects=False) as browser:
        assert "Secure" in browser.get(login_link(secure.address.url, secure.codes)).headers["set-cookie"]


def test_the_login_responses_match_the_declaration():
    document = build_openapi(ROUTES)
    paths = document["paths"]
    own = {
        (path, method): min(reported["responses"]) for path, ways in paths.items() for method, reported in ways.items()
    }
    assert own == {
        ("/login", "get"): "303",
        ("/api/login", "post"): "204",
        ("/api/logout", "post"): "204",
        ("/api/login/link", "post"): "200",
    }
    reports = paths["/api/login/link"]["post"]["responses"]["200"]["content"]
    link = {"type": "object", "properties": {"link": {"type": "string"}}, "required": ["link"]}
    assert reports == {"application/json": {"schema": {"$ref": "#/components/schemas/LoginLink"}}}
    assert document["components"]["schemas"]["LoginLink"] == link
