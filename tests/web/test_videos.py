from __future__ import annotations

import os

import pytest

CONTENT = os.urandom(5000)


@pytest.fixture
def film(make_run):
    directory = make_run("first")
    (directory.videos / "10-seed1.mp4").write_bytes(CONTENT)
    (directory.videos / "notes.txt").write_text("no film")
    return directory


def test_films_are_listed_and_nothing_else(client, film):
    videos = client.get("/api/runs/first/videos").json()["videos"]
    assert [(video["name"], video["bytes"]) for video in videos] == [("10-seed1.mp4", 5000)]


def test_a_film_is_sent_whole_with_its_type(client, film):
    answer = client.get("/api/runs/first/videos/10-seed1.mp4")
    assert answer.content == CONTENT
    assert answer.headers["content-type"] == "video/mp4"


def test_a_browser_jumps_by_ranges_of_one_version(client, film):
    path = "/api/runs/first/videos/10-seed1.mp4"
    etag = client.get(path).headers["etag"]
    part = client.get(path, headers={"range": "bytes=100-199", "if-range": etag})
    assert (part.status_code, part.content) == (206, CONTENT[100:200])
    assert part.headers["content-range"] == "bytes 100-199/5000"
    whole = client.get(path, headers={"range": "bytes=100-199", "if-range": '"another"'})
    assert (whole.status_code, whole.content) == (200, CONTENT)
    assert client.get(path, headers={"if-none-match": etag}).status_code == 304


def test_a_range_behind_the_end_is_416_with_the_size(client, film):
    answer = client.get("/api/runs/first/videos/10-seed1.mp4", headers={"range": "bytes=5000-"})
    assert answer.status_code == 416
    assert answer.headers["content-range"] == "bytes */5000"
    assert "5000 bytes" in answer.json()["error"]["hint"]


def test_asking_for_the_head_gives_the_length(client, film):
    answer = client.head("/api/runs/first/videos/10-seed1.mp4")
    assert answer.headers["content-length"] == "5000"
    assert answer.content == b""


def test_what_is_no_film_is_not_there(client, film):
    assert client.get("/api/runs/first/videos/notes.txt").status_code == 404
    assert client.get("/api/runs/nobody/videos").status_code == 404
