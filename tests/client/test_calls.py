"""Every call of the client against a real daemon."""

import pytest

from palaestra.client.calls import connect
from palaestra.client.doorplate import read_doorplate, token_file
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.worker_kind import RequestRefused


@pytest.fixture
def client(served):
    with connect(served) as client:
        yield client


def test_a_run_is_asked_for_looked_at_and_removed(client, served):
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
    assert client.again()["name"] != clone["name"]
    client.remove(waiting["id"])
    with pytest.raises(NotFound):
        client.run(waiting["id"])
    for run in client.runs(state=["queued", "running"]):
        client.stop(run["id"], 0)
    assert len(busy) == 3


def test_what_is_wrong_comes_back_as_it_would_without_a_daemon(client):
    with pytest.raises(RequestRefused) as caught:
        client.submit("cartpole", {"ppo.gama": 1, "device": "tpu"})
    assert sorted(complaint.key for complaint in caught.value.field_errors) == ["device", "ppo.gama"]
    assert len(client.check("cartpole", config={"x": 1})["errors"]) == 1
    for word in ("nobody", "../x", "a/b?c=d#e", "ä ö", "%2e%2e"):
        with pytest.raises(NotFound):
            client.run(word)


def test_machine_recipes_and_links_are_told(client):
    assert client.system()["runs_root"]
    assert "cartpole" in {recipe["name"] for recipe in client.recipes()}
    assert client.login_link().startswith(client.url + "/login?code=")


def test_the_environment_can_name_a_daemon_elsewhere(served, monkeypatch):
    monkeypatch.setenv("PALAESTRA_DAEMON", read_doorplate(served).url)
    monkeypatch.delenv("PALAESTRA_DAEMON_TOKEN", raising=False)
    with pytest.raises(UsageError, match="PALAESTRA_DAEMON_TOKEN is not"):
        connect()
    monkeypatch.setenv("PALAESTRA_DAEMON_TOKEN", token_file(served).read_text().strip())
    with connect() as client:
        assert client.system()["pid"]
    monkeypatch.setenv("PALAESTRA_DAEMON_TOKEN", "wrong")
    with connect() as client, pytest.raises(UsageError, match="does not know this token"):
        client.system()


def test_without_a_daemon_the_way_to_one_is_said(tmp_path):
    with pytest.raises(NotFound, match="No daemon is running"):
        connect(tmp_path)
