"""The clusters on the page: a reply never waits for a cluster, and nobody is asked twice at once."""

import threading
import time

from palaestra.cluster.status import ClusterJob, ClusterStatus, NodeStatus
from palaestra.core.errors import RunFailed
from palaestra.web.resources import cluster
from palaestra.web.resources.cluster import ClusterMonitor, known_addresses

STATUS = ClusterStatus(
    "10.0.0.1:6379",
    [
        NodeStatus("head", "10.0.0.1", "up", is_head=True, cpus=4, cpus_used=1, code="same", last_sign_seconds=0.2),
        NodeStatus("worker-1", "10.0.0.2", "silent", reason="no response within 20 s"),
    ],
    [ClusterJob("10.0.0.1", 4711, "palaestra eval run=x remote=true")],
)


class Requested:
    """Stands for a cluster that responds when the test says so."""

    def __init__(self, result):
        self.result = result
        self.may_respond = threading.Event()
        self.times = 0

    def __call__(self, address):
        self.times += 1
        assert self.may_respond.wait(10)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def wait_until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_reply_does_not_wait_for_the_cluster():
    requested = Requested(STATUS)
    monitor = ClusterMonitor(requested)
    first = monitor.describe("10.0.0.1:6379")
    assert (first["is_refreshing"], first["checked_at"], first["nodes"]) == (True, None, [])
    monitor.describe("10.0.0.1:6379")
    requested.may_respond.set()
    wait_until(lambda: not monitor.describe("10.0.0.1:6379")["is_refreshing"])
    found = monitor.describe("10.0.0.1:6379")
    assert [(node["host"], node["state"], node["cpus_used"]) for node in found["nodes"]] == [
        ("head", "up", 1),
        ("worker-1", "silent", 0.0),
    ]
    assert found["jobs"][0]["command"] == "palaestra eval run=x remote=true"
    assert requested.times == 1  # a fresh state is not asked for again


def test_a_failed_refresh_keeps_the_last_nodes_and_reports_the_error(monkeypatch):
    requested = Requested(STATUS)
    requested.may_respond.set()
    monitor = ClusterMonitor(requested)
    monitor.describe("a:1")
    wait_until(lambda: monitor.describe("a:1")["nodes"])
    requested.result = RunFailed("The cluster at a:1 did not respond.", "Is its head running?")
    monkeypatch.setattr(cluster, "FRESH_SECONDS", 0.0)
    wait_until(lambda: monitor.describe("a:1")["error"])
    found = monitor.describe("a:1")
    assert (found["error"], found["hint"]) == ("The cluster at a:1 did not respond.", "Is its head running?")
    assert len(found["nodes"]) == 2


def test_the_clusters_of_runs_that_have_not_ended_are_known(client, daemon, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.9:6379")
    assert known_addresses(daemon) == ["10.0.0.9:6379"]
    monkeypatch.setenv("RAY_ADDRESS", "ray://10.0.0.9:10001")  # not an address of ours: its own commands refuse it
    assert known_addresses(daemon) == []
    monkeypatch.delenv("RAY_ADDRESS")
    client.post("/api/runs", json={"kind": "nap", "config": {"seconds": 60}})  # takes the only slot
    body = {"kind": "native", "recipe": "cartpole", "config": {"cluster": {"address": "10.0.0.5:6379"}}}
    assert client.post("/api/runs", json=body).status_code == 201
    assert known_addresses(daemon) == ["10.0.0.5:6379"]


def test_the_route_lists_clusters_with_their_nodes(client, context, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    requested = Requested(STATUS)
    requested.may_respond.set()
    context.services[cluster.SERVICE] = ClusterMonitor(requested)
    wait_until(lambda: client.get("/api/clusters").json()["clusters"][0]["nodes"])
    (only,) = client.get("/api/clusters").json()["clusters"]
    assert only["address"] == "10.0.0.1:6379"
    assert only["nodes"][0]["is_head"]
