from __future__ import annotations

import asyncio

import psutil
import pytest

from palaestra.core.clock import SystemClock
from palaestra.core.errors import NotFound
from palaestra.core.sink import Sample
from palaestra.loggers.tensorboard import TensorBoardSink
from palaestra.web import tensorboard
from palaestra.web.tensorboard import ROOM, Desk


def children():
    found = psutil.Process().children(recursive=True)
    return [process for process in found if "palaestra.web.tensorboard_child" in command_of(process)]


def command_of(process):
    """Nothing for one that has just ended: workers of other tests are children too."""
    try:
        return process.cmdline()
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return []


def write_curve(directory, value=0.0):
    sink = TensorBoardSink(directory.tensorboard, {}, SystemClock())
    for step in range(5):
        sink.write(Sample(step, {"charts/episodic_return": step + value}, at=1000.0 + step))
    sink.close()


@pytest.mark.slow
def test_a_signed_in_browser_looks_at_the_chosen_runs_and_nobody_else_does(client, make_run, house):
    write_curve(make_run("first"))
    make_run("second")
    path = client.post("/api/tensorboard", json={"runs": ["first", "first"]}).json()["path"]
    page = client.get(path)
    assert page.status_code == 200
    assert "<!doctype html>" in page.text
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'self'" in policy
    assert "http" not in policy
    assert page.headers["x-frame-options"] == "SAMEORIGIN"
    assert "set-cookie" not in page.headers
    assert client.get(f"{path}data/runs").json() == ["first"]
    query = {"run": "first", "tag": "charts/episodic_return"}
    curve = client.get(f"{path}data/plugin/scalars/scalars", params=query).json()
    assert [(step, value) for _, step, value in curve] == [(step, float(step)) for step in range(5)]
    form = {"tag": "charts/episodic_return", "runs": "first"}
    many = client.post(
        f"{path}data/plugin/scalars/scalars_multirun", files={name: (None, value) for name, value in form.items()}
    )
    assert len(many.json()["first"]) == 5
    assert client.get("/tensorboard/another-key/").status_code == 404
    del client.headers["authorization"]
    assert client.get(path).status_code == 401
    assert client.post("/api/tensorboard", json={"runs": ["first"]}).status_code == 401


@pytest.mark.slow
def test_the_same_runs_share_one_other_runs_end_it_and_nothing_stays(client, make_run, house):
    write_curve(make_run("first"))
    write_curve(make_run("second"))
    first = client.post("/api/tensorboard", json={"runs": ["first"]}).json()["path"]
    (process,) = children()
    assert client.post("/api/tensorboard", json={"runs": ["first"]}).json()["path"] == first
    assert children() == [process]
    second = client.post("/api/tensorboard", json={"runs": ["first", "second"]}).json()["path"]
    assert second != first
    assert client.get(first).status_code == 404
    assert not process.is_running()
    assert sorted(client.get(f"{second}data/runs").json()) == ["first", "second"]
    (process,) = children()
    desk = house.rooms[ROOM]
    desk._idle_seconds = -1.0
    client.portal.call(desk.end_if_idle)
    assert not process.is_running()
    assert client.get(second).status_code == 404
    assert children() == []
    assert list((house.daemon.root / ".palaestra" / "tensorboard").iterdir()) == []


@pytest.mark.slow
def test_it_ends_with_the_daemon(client, make_run, house):
    write_curve(make_run("first"))
    client.post("/api/tensorboard", json={"runs": ["first"]})
    (process,) = children()
    client.portal.call(house.rooms[ROOM].close)
    assert not process.is_running()


@pytest.mark.parametrize("runs", [None, [], ["first"] * 101, "first", [1]])
def test_what_cannot_be_asked_is_refused(client, make_run, runs):
    make_run("first")
    assert client.post("/api/tensorboard", json={"runs": runs}).status_code == 422
    assert client.post("/api/tensorboard", json={}).status_code == 422


def test_an_unknown_run_is_not_found_and_nothing_starts(client, make_run):
    make_run("first")
    assert client.post("/api/tensorboard", json={"runs": ["first", "nobody"]}).status_code == 404
    assert children() == []


@pytest.mark.parametrize("rest", ["", "x/", "%2e%2e/x", "x/../../etc/passwd", "é/"])
def test_where_there_is_no_tensorboard_there_is_nothing(client, rest):
    assert client.get(f"/tensorboard/{rest}").status_code == 404


def test_one_that_does_not_start_is_named_and_leaves_nothing(tmp_path, make_run, monkeypatch):
    class Fake:
        def __init__(self, *_):
            raise NotFound("no such thing")

    monkeypatch.setattr(tensorboard, "start_tensorboard", Fake)
    desk = Desk(tmp_path)
    with pytest.raises(NotFound):
        asyncio.run(desk.open([("first", make_run("first"))]))
    assert desk.board is None
    with pytest.raises(NotFound, match="has ended"):
        desk.find("")
