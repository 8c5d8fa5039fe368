from __future__ import annotations

import socket
import time
from contextlib import ExitStack, contextmanager

import pytest

from palaestra.cluster import nodes
from palaestra.cluster.nodes import (
    ExcludedNode,
    Node,
    NodeMonitor,
    NodeResponses,
    Ping,
    alive_nodes,
    find_excluded_nodes,
    no_usable_node,
    selector,
    unreachable,
)
from palaestra.core.errors import RunFailed, UsageError
from palaestra.runs.environment import code_identity, package_files


class FakeRay:
    def nodes(self):
        return [
            {"NodeID": name, "NodeManagerAddress": f"10.0.0.{name}", "Alive": True, "Resources": {"CPU": 4.0}}
            for name in "ab"
        ]


def node(name):
    return Node(name, f"10.0.0.{name}", 4.0, 0.0)


@pytest.fixture
def replied(monkeypatch):
    """What the nodes say: `answered(a=None, b=other_code)`; a text is why a node did not answer."""

    def reply(**by_node):
        reported = {name: (f"host-{name}", what) for name, what in by_node.items() if not isinstance(what, str)}
        silent = tuple(ExcludedNode(node(name), what) for name, what in by_node.items() if isinstance(what, str))
        monkeypatch.setattr(nodes, "query_nodes", lambda ray, question, *arguments: NodeResponses(reported, {}, silent))

    return reply


EDITED = {"versions": [], "package": {**package_files(), "envs/make.py": "edited"}, "modules": {}}


def test_nodes_with_the_same_code_are_all_used(replied):
    replied(a=None, b=None)
    assert find_excluded_nodes(FakeRay()) == ()


def test_a_node_with_edited_code_is_left_out_with_its_files(replied, caplog):
    replied(a=None, b=EDITED)
    (excluded,) = find_excluded_nodes(FakeRay())
    assert excluded.node.id == "b"
    assert [record.getMessage() for record in caplog.records] == [
        "Node left out: 10.0.0.b: its code differs: palaestra/envs/make.py"
    ]


def test_other_code_can_be_accepted_and_is_reported(replied, caplog):
    replied(a=None, b=EDITED)
    assert find_excluded_nodes(FakeRay(), allow_different_code=True) == ()
    assert "The code on host-b differs (palaestra/envs/make.py)" in caplog.text


def test_one_dead_node_does_not_block_the_others(replied, caplog):
    replied(a=None, b="it did not answer in time")
    assert [one.node.id for one in find_excluded_nodes(FakeRay())] == ["b"]
    assert "it did not answer in time" in caplog.text


def test_when_no_node_is_left_it_is_an_error_that_names_each(replied):
    replied(a=EDITED, b="it did not answer in time")
    with pytest.raises(UsageError) as refusal:
        find_excluded_nodes(FakeRay())
    assert "10.0.0.a: its code differs: palaestra/envs/make.py" in refusal.value.message
    assert "10.0.0.b: it did not answer in time" in refusal.value.message
    assert isinstance(no_usable_node([ExcludedNode(node("b"), "gone")]), RunFailed)


def test_a_node_says_what_differs_there(monkeypatch):
    code = code_identity()
    fields = {"python": code.python, "packages": code.packages, "package": code.package, "modules": {}}
    assert nodes.describe(fields)[1] is None
    assert nodes.describe({**fields, "package": "other"})[1]["package"] == package_files()


def test_left_out_nodes_are_avoided_by_their_label():
    assert selector(()) == {}
    assert selector(["b", "a"]) == {"ray.io/node-id": "!in(a, b)"}


class SetClock:
    def __init__(self):
        self.seconds = 100.0

    def monotonic(self):
        return self.seconds

    def now(self):
        return self.seconds


class Cluster:
    """Ray as far as it knows nodes."""

    def __init__(self, **ports):
        self.ports = ports

    def nodes(self):
        return [
            {
                "NodeID": name,
                "NodeManagerAddress": "127.0.0.1",
                "NodeManagerHostname": name,
                "NodeManagerPort": port,
                "Alive": port is not None,
                "Resources": {"CPU": 4.0, "GPU": 1.0} if name == "a" else {},
            }
            for name, port in self.ports.items()
        ]


@pytest.fixture
def raylet():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def port_of(server):
    return server.getsockname()[1]


@pytest.fixture
def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return port_of(server)


def changes_of(monitor, clock, seconds):
    """All changes while the clock goes on in steps of a second; real connections get real time."""
    found = []
    for _ in range(int(seconds)):
        found += monitor.update()
        time.sleep(0.005)
        found += monitor.update()
        clock.seconds += 1.0
    return found


def test_the_dead_are_not_counted_and_a_node_may_have_nothing():
    found = alive_nodes(Cluster(a=7000, b=None, c=7001))
    assert found == [Node("a", "127.0.0.1", 4.0, 1.0, "a", 7000), Node("c", "127.0.0.1", 0.0, 0.0, "c", 7001)]
    assert found[0].name == "a (127.0.0.1)"


def test_nodes_are_pinged_at_once_and_unreachable_ones_are_named_with_the_reason(raylet, closed_port):
    well, gone = Node("a", "127.0.0.1", 1, 0, "a", port_of(raylet)), Node("b", "127.0.0.1", 1, 0, "b", closed_port)
    with full_queue() as port:
        found = unreachable([well, gone, Node("c", "127.0.0.1", 1, 0, "c", port)], seconds=0.5)
    assert set(found) == {"b", "c"}
    assert "Connection refused" in found["b"]
    assert "timeout after 0.5 s" in found["c"]


@contextmanager
def full_queue():
    """A port that neither accepts nor refuses: its queue is full, so the kernel drops what comes."""
    with socket.socket() as server, ExitStack() as stack:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0.0)
            waiting.connect_ex(server.getsockname())
        yield port_of(server)


def test_a_node_that_replies_is_well_however_long(raylet):
    clock = SetClock()
    monitor = NodeMonitor(Cluster(a=port_of(raylet)), timeout=20.0, clock=clock)
    raylet.listen(1024)
    assert changes_of(monitor, clock, 100) == []
    assert [node.id for node in monitor.usable] == ["a"]
    monitor.close()


def test_a_node_whose_raylet_is_gone_is_lost_at_once_and_used_again_when_it_is_back():
    clock, server = SetClock(), socket.create_server(("127.0.0.1", 0))
    port = port_of(server)
    monitor = NodeMonitor(Cluster(a=port), timeout=20.0, clock=clock)
    assert changes_of(monitor, clock, 3) == []
    server.close()
    (lost,) = changes_of(monitor, clock, 6)
    assert (lost.node.id, lost.is_lost, lost.reason) == ("a", True, "Connection refused")
    assert (monitor.usable, monitor.silent) == ([], {"a"})
    with socket.create_server(("127.0.0.1", port), backlog=64):
        (back,) = changes_of(monitor, clock, 6)
    assert not back.is_lost
    assert monitor.silent == set()
    monitor.close()


class NeverPing(Ping):
    def outcome(self):
        return None


def test_a_node_that_is_silent_for_the_limit_is_lost_and_named_once(monkeypatch, raylet):
    clock = SetClock()
    monitor = NodeMonitor(Cluster(a=port_of(raylet)), timeout=20.0, clock=clock)
    changes_of(monitor, clock, 3)
    monkeypatch.setattr(nodes, "Ping", NeverPing)
    assert changes_of(monitor, clock, 19) == [], "the limit is not reached"
    (lost,) = changes_of(monitor, clock, 60)
    assert lost.is_lost
    assert 20 <= float(lost.reason.split()[-2]) <= 20 + nodes.STALE_SECONDS + nodes.PING_SECONDS + 1
    monitor.close()


def test_a_node_that_ray_declares_dead_is_lost_and_one_that_joins_is_used(raylet):
    clock, cluster = SetClock(), Cluster(a=port_of(raylet), b=port_of(raylet))
    monitor = NodeMonitor(cluster, timeout=20.0, clock=clock)
    changes_of(monitor, clock, 3)
    cluster.ports = {"a": port_of(raylet), "b": None, "c": port_of(raylet)}
    (lost,) = changes_of(monitor, clock, 6)
    assert (lost.node.id, lost.is_lost) == ("b", True)
    assert sorted(node.id for node in monitor.usable) == ["a", "c"]
    assert (monitor.node("c").host, monitor.node("b"), monitor.node_at("127.0.0.1").id) == ("c", None, "a")
    monitor.close()
