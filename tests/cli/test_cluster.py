import json

import pytest

from palaestra.cli import cluster
from palaestra.cli.main import main
from palaestra.cluster.status import ClusterJob, ClusterStatus, NodeStatus

VERSIONS = {"python": "3.11.7", "ray": "2.60.0", "palaestra": "0.1.0"}
NODES = [
    NodeStatus("m1", "10.0.0.1", "up", True, 4.0, 3.0, 0.0, 0.0, VERSIONS, "same", [], 0.2),
    NodeStatus("m2", "10.0.0.2", "up", False, 4.0, 0.0, 1.0, 1.0, VERSIONS, "different", ["palaestra/api.py"], 0.1),
    NodeStatus("m3", "10.0.0.3", "silent", False, 4.0, reason="nobody answers at 10.0.0.3:5"),
]


@pytest.fixture
def requested(monkeypatch):
    addresses = []

    def read(address):
        addresses.append(address)
        return ClusterStatus(address, NODES, [ClusterJob("10.0.0.1", 7, "palaestra eval x")])

    monkeypatch.setattr(cluster, "read_status", read)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return addresses


def test_nodes_are_a_table_and_what_is_wrong_is_named(requested, capsys):
    assert main(["cluster", "cluster.address=10.0.0.1:6379"]) == 0
    out, err = capsys.readouterr()
    first, *rows = out.splitlines()
    assert first.split()[:3] == ["node", "address", "state"]
    assert "3/4" in rows[-3]
    assert "different" in rows[-2]
    assert "silent" in rows[-1]
    assert "m2: palaestra/api.py" in err
    assert "m3 is silent: nobody answers at 10.0.0.3:5" in err
    assert "running: palaestra eval x (process 7 on 10.0.0.1)" in err


def test_json_has_everything_and_the_variable_names_the_cluster(requested, capsys, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert main(["cluster", "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)
    assert requested == ["head:6379"]
    assert [node["state"] for node in reports["nodes"]] == ["up", "up", "silent"]
    assert reports["jobs"][0]["pid"] == 7


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "No cluster address given"),
        (["cluster.address=ray://x:1"], "not an address of the form HOST:PORT"),
        (["env.id=x"], "not a cluster setting"),
        (["cluster.adress=x:1"], "cluster.adress"),
    ],
)
def test_slips_are_refused_before_anybody_is_requested(requested, capsys, words, problem):
    assert main(["cluster", *words]) == 2
    assert problem in capsys.readouterr().err
    assert requested == []
