from __future__ import annotations

from palaestra.runs.replay_file import ReplayWriter, read_replay_file
from palaestra.runs.replays import replay_path


def test_replays_are_listed_and_sent_as_they_lie_there(client, make_run, tmp_path):
    directory = make_run("first")
    path = replay_path(directory.replays, 10, 1)
    with ReplayWriter(path, "arena", {}) as writer:
        writer.add({"x": 1})
    listed = client.get("/api/runs/first/replays").json()["replays"]
    assert [replay["name"] for replay in listed] == [path.name]
    answer = client.get(f"/api/runs/first/replays/{path.name}")
    assert answer.headers["content-type"] == "application/gzip"
    assert "content-encoding" not in answer.headers
    (tmp_path / "copy.json.gz").write_bytes(answer.content)
    assert read_replay_file(tmp_path / "copy.json.gz").steps == [b'{"x":1}']


def test_other_files_are_no_replays(client, make_run):
    directory = make_run("first")
    (directory.replays / "x.json").write_text("{}")
    assert client.get("/api/runs/first/replays").json() == {"replays": []}
    assert client.get("/api/runs/first/replays/x.json").status_code == 404
