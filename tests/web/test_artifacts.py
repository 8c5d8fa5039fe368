from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from palaestra.web.artifacts import ROUTES
from palaestra.web.openapi import build_openapi

HTML = "<script>alert(document.domain)</script>"

BITS = ["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "%252e%252e%252f", "....//", "..;/", "%c0%ae%c0%ae/", "\\..\\"]
TARGETS = ["etc/passwd", "status.json", "secret", "metrics.db", "%00", "secret%00.txt"]
PLACES = ["artifacts", "videos", "replays", "evaluations"]


@pytest.mark.fault("W10")
def test_an_artefact_is_saved_never_shown(client, make_run):
    directory = make_run("first")
    (directory.artifacts / "page.html").write_text(HTML)
    listed = client.get("/api/runs/first/artifacts").json()["artifacts"]
    assert [file["name"] for file in listed] == ["page.html"]
    answer = client.get("/api/runs/first/artifacts/page.html")
    assert answer.text == HTML
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_link_to_somewhere_else_is_not_there(client, make_run, tmp_path):
    directory = make_run("first")
    (tmp_path / "secret").write_text("secret")
    (directory.artifacts / "link").symlink_to(tmp_path / "secret")
    (directory.artifacts / "hard").mkdir()
    assert client.get("/api/runs/first/artifacts").json() == {"artifacts": []}
    assert client.get("/api/runs/first/artifacts/link").status_code == 404


class Opens:
    """Every file that this process opens while it is asked, for as long as it wants to know."""

    def __init__(self) -> None:
        self.paths: list[str] | None = None
        sys.addaudithook(self._heard)

    def _heard(self, event, arguments):
        if event == "open" and self.paths is not None and isinstance(arguments[0], str | bytes):
            self.paths.append(str(arguments[0]))


OPENS = Opens()


@pytest.mark.fault("W9")
@pytest.mark.parametrize("place", PLACES)
def test_no_name_leads_out_of_the_run(client, make_run, house, tmp_path, place):
    directory = make_run("first")
    (house.daemon.root / "secret").write_text("secret")
    names = [bit * depth + target for bit in BITS for depth in (1, 3) for target in TARGETS]
    names += [
        quote(str(tmp_path), safe=""),
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "file:%2f%2f%2fetc%2fpasswd",
        "con",
        "~",
        "%ff",
    ]
    assert len(names) * len(PLACES) >= 300
    OPENS.paths = []
    try:
        statuses = {client.get(f"/api/runs/first/{place}/{name}").status_code for name in names}
        runs = {client.get(f"/api/runs/{name}/{place}").status_code for name in names}
    finally:
        opened, OPENS.paths = OPENS.paths, None
    assert statuses <= {400, 404}
    assert runs <= {400, 404}
    root = str(Path(house.daemon.root).resolve())
    outside = [
        path for path in opened if path.startswith("/") and not path.startswith((root, sys.prefix, sys.base_prefix))
    ]
    assert [path for path in outside if not path.startswith("/proc/")] == []
    assert directory.artifacts.is_dir()


def test_what_is_said_of_artefacts_is_what_is_sent():
    document = build_openapi(ROUTES)
    paths, listed = document["paths"], document["components"]["schemas"]["ArtifactList"]
    content = paths["/api/runs/{id}/artifacts"]["get"]["responses"]["200"]["content"]
    assert content == {"application/json": {"schema": {"$ref": "#/components/schemas/ArtifactList"}}}
    one = paths["/api/runs/{id}/artifacts/{name}"]["get"]["responses"]
    assert (listed["required"], list(listed["properties"])) == (["artifacts"], ["artifacts"])
    assert "416" in one
    assert list(one["200"]["content"]) == ["application/octet-stream"]
