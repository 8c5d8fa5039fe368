import pytest
from starlette.testclient import TestClient

from palaestra.web import app as app_module
from palaestra.web.app import build_app
from palaestra.web.pages import is_page, load_files
from palaestra.web.security.headers import PAGE_POLICY


@pytest.fixture
def built(tmp_path, context, monkeypatch):
    folder = tmp_path / "static"
    (folder / "assets" / "fonts").mkdir(parents=True)
    (folder / "index.html").write_text("<title>page</title>")
    (folder / "favicon.svg").write_text("<svg/>")
    (folder / "assets" / "app-1234.js").write_text("run()")
    (folder / "assets" / "fonts" / "a.woff2").write_bytes(b"font")
    (folder / "assets" / "link.js").symlink_to("/etc/passwd")
    (folder / "secret.txt").write_text("secret")
    files = load_files(folder)
    monkeypatch.setattr(app_module, "load_files", lambda: files)
    with TestClient(build_app(context), base_url=context.address.url) as client:
        yield client


def test_the_page_and_its_files_need_no_token(built):
    assert built.get("/").text == "<title>page</title>"
    assert built.get("/").headers["content-security-policy"] == PAGE_POLICY
    assert built.get("/favicon.svg").headers["content-type"] == "image/svg+xml"
    script = built.get("/assets/app-1234.js")
    assert (script.text, script.headers["content-type"]) == ("run()", "text/javascript; charset=utf-8")
    assert "immutable" in script.headers["cache-control"]
    assert built.get("/assets/fonts/a.woff2").content == b"font"


def test_a_known_version_of_the_page_is_304(built):
    etag = built.get("/").headers["etag"]
    assert built.get("/", headers={"if-none-match": etag}).status_code == 304
    assert built.get("/", headers={"if-none-match": '"x"'}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/assets/link.js",
        "/assets/",
        "/assets/nothing.js",
        "/assets/../secret.txt",
        "/assets/%2e%2e/secret.txt",
        "/assets/..%2fsecret.txt",
        "/assets//etc/passwd",
        "/assets/fonts",
        "/assets/app-1234.js%00",
    ],
)
def test_only_files_present_at_startup_are_served(built, path):
    assert built.get(path).status_code in {400, 401, 404}


def test_files_beside_the_page_are_not_public(built):
    assert built.get("/secret.txt").status_code == 401


def test_without_a_build_the_page_says_how_to_build_it(context, monkeypatch):
    monkeypatch.setattr(app_module, "load_files", dict)
    with TestClient(build_app(context), base_url=context.address.url) as client:
        answer = client.get("/")
        assert (answer.status_code, "make ui" in answer.text) == (200, True)
        assert str(context.daemon.root) not in answer.text
        assert context.token.read() not in answer.text
        assert client.get("/assets/x.js").status_code == 404


def test_nothing_is_loaded_without_a_build(tmp_path):
    assert load_files(tmp_path) == {}


def test_only_static_paths_are_pages():
    assert [is_page(path) for path in ("/", "/favicon.svg", "/assets/x")] == [True] * 3
    assert [is_page(path) for path in ("/assets", "/api/runs", "/index.html", "//", "/login")] == [False] * 5
