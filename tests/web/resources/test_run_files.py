from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from palaestra.runs.replays import ReplayWriter, read_replay_file, replay_path
from palaestra.web.openapi import build_openapi
from palaestra.web.resources.run_files import ROUTES

HTML = "<script>alert(document.domain)</script>"

BITS = ["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "%252e%252e%252f", "....//", "..;/", "%c0%ae%c0%ae/", "\\..\\"]
TARGETS = ["etc/passwd", "status.json", "secret", "metrics.db", "%00", "secret%00.txt"]
PLACES = ["artifacts", "videos", "replays", "evaluations"]


@pytest.mark.fault("W10")
def test_an_artifact_is_sent_as_an_attachment(client, make_run):
    directory = make_run("first")
    (directory.artifacts / "page.html").write_text(HTML)
    listed = client.get("/api/runs/first/artifacts").json()["artifacts"]
    assert [file["name"] for file in listed] == ["page.html"]
    reply = client.get("/api/runs/first/artifacts/page.html")
    assert reply.text == HTML
    assert reply.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in reply.headers["content-security-policy"]
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_link_is_not_listed(client, make_run, tmp_path):
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
def test_no_name_escapes_the_run_directory(client, make_run, context, tmp_path, place):
    directory = make_run("first")
    (context.daemon.root / "secret").write_text("secret")
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
    root = str(Path(context.daemon.root).resolve())
    outside = [
        path for path in opened if path.startswith("/") and not path.startswith((root, sys.prefix, sys.base_prefix))
    ]
    assert [path for path in outside if not path.startswith("/proc/")] == []
    assert directory.artifacts.is_dir()


def test_the_listing_of_artifacts_matches_their_content():
    document = build_openapi(ROUTES)
    paths, listed = document["paths"], document["components"]["schemas"]["ArtifactList"]
    content = paths["/api/runs/{id}/artifacts"]["get"]["responses"]["200"]["content"]
    assert content == {"application/json": {"schema": {"$ref": "#/components/schemas/ArtifactList"}}}
    one = paths["/api/runs/{id}/artifacts/{name}"]["get"]["responses"]
    assert (listed["required"], list(listed["properties"])) == (["artifacts"], ["artifacts"])
    assert "416" in one
    assert list(one["200"]["content"]) == ["application/octet-stream"]


CONTENT = os.urandom(5000)


@pytest.fixture
def recording(make_run):
    directory = make_run("first")
    (directory.videos / "10-seed1.mp4").write_bytes(CONTENT)
    (directory.videos / "notes.txt").write_text("no film")
    return directory


def test_only_videos_are_listed(client, recording):
    videos = client.get("/api/runs/first/videos").json()["videos"]
    assert [(video["name"], video["bytes"]) for video in videos] == [("10-seed1.mp4", 5000)]


def test_a_video_is_sent_with_its_type(client, recording):
    reply = client.get("/api/runs/first/videos/10-seed1.mp4")
    assert reply.content == CONTENT
    assert reply.headers["content-type"] == "video/mp4"


def test_range_requests_are_served_for_one_version(client, recording):
    path = "/api/runs/first/videos/10-seed1.mp4"
    etag = client.get(path).headers["etag"]
    part = client.get(path, headers={"range": "bytes=100-199", "if-range": etag})
    assert (part.status_code, part.content) == (206, CONTENT[100:200])
    assert part.headers["content-range"] == "bytes 100-199/5000"
    whole = client.get(path, headers={"range": "bytes=100-199", "if-range": '"another"'})
    assert (whole.status_code, whole.content) == (200, CONTENT)
    assert client.get(path, headers={"if-none-match": etag}).status_code == 304


def test_a_range_behind_the_end_is_416_with_the_size(client, recording):
    reply = client.get("/api/runs/first/videos/10-seed1.mp4", headers={"range": "bytes=5000-"})
    assert reply.status_code == 416
    assert reply.headers["content-range"] == "bytes */5000"
    assert "5000 bytes" in reply.json()["error"]["hint"]


def test_asking_for_the_head_gives_the_length(client, recording):
    reply = client.head("/api/runs/first/videos/10-seed1.mp4")
    assert reply.headers["content-length"] == "5000"
    assert reply.content == b""


def test_other_files_are_not_videos(client, recording):
    assert client.get("/api/runs/first/videos/notes.txt").status_code == 404
    assert client.get("/api/runs/nobody/videos").status_code == 404


def test_replays_are_listed_and_sent_as_stored(client, make_run, tmp_path):
    directory = make_run("first")
    path = replay_path(directory.replays, 10, 1)
    with ReplayWriter(path, "arena", {}) as writer:
        writer.add({"x": 1})
    listed = client.get("/api/runs/first/replays").json()["replays"]
    assert [replay["name"] for replay in listed] == [path.name]
    reply = client.get(f"/api/runs/first/replays/{path.name}")
    assert reply.headers["content-type"] == "application/gzip"
    assert "content-encoding" not in reply.headers
    (tmp_path / "copy.json.gz").write_bytes(reply.content)
    assert read_replay_file(tmp_path / "copy.json.gz").steps == [b'{"x":1}']


def test_other_files_are_not_replays(client, make_run):
    directory = make_run("first")
    (directory.replays / "x.json").write_text("{}")
    assert client.get("/api/runs/first/replays").json() == {"replays": []}
    assert client.get("/api/runs/first/replays/x.json").status_code == 404
