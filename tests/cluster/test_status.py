"""The state of a cluster, from what Ray and its nodes say."""

import json
import subprocess
import time
from types import SimpleNamespace

import pytest

from palaestra.cluster import status
from palaestra.cluster.nodes import ExcludedNode, NodeResponses, node_of
from palaestra.cluster.status import cluster_status, describe_node, read_status
from palaestra.core.errors import RunFailed
from palaestra.runs.environment import code_identity, package_files

VERSIONS = {"python": "3.11.7", "ray": "2.60.0", "palaestra": "0.1.0"}


def entry(name, *, alive=True, head=False, reason=""):
    resources = {"CPU": 4.0, "node:__internal_head__": 1.0} if head else {"CPU": 4.0}
    return {
        "NodeID": f"id-{name}",
        "NodeManagerAddress": f"10.0.0.{name}",
        "NodeManagerHostname": f"host-{name}",
        "NodeManagerPort": 1,
        "Alive": alive,
        "Resources": resources,
        "DeathReasonMessage": reason,
    }


@pytest.fixture
def ray(monkeypatch):
    entries = [entry("2"), entry("1", head=True), entry("3"), entry("4", alive=False, reason="health check failed\nx")]
    entries += [entry("3", alive=False), entry("5")]
    files = {**package_files(), "envs/make.py": "edited"}
    other = {"versions": [], "package": files, "modules": {}}
    reported = {
        "id-1": {"host": "host-1", "versions": VERSIONS, "code_differences": None},
        "id-2": {"host": "host-2", "versions": VERSIONS, "code_differences": other},
        "id-5": {"host": "host-5", "versions": VERSIONS, "code_differences": None},
    }
    silent = (ExcludedNode(node_of(entry("3")), "nobody answers at 10.0.0.3:1"),)
    now = time.monotonic()
    responses = NodeResponses(reported, dict.fromkeys(reported, now), silent)
    jobs = [
        {"DriverIPAddress": "10.0.0.1", "DriverPid": 7, "Entrypoint": "palaestra eval", "IsDead": False},
        {"DriverIPAddress": "10.0.0.1", "DriverPid": 8, "Entrypoint": "long over", "IsDead": True},
    ]
    state = SimpleNamespace(available_resources_per_node=lambda: {"id-1": {"CPU": 1.0}}, jobs=lambda: jobs)
    monkeypatch.setattr(status, "query_nodes", lambda ray, question, *arguments: responses)
    monkeypatch.setattr(status, "import_module", lambda name: state)
    return SimpleNamespace(nodes=lambda: entries, util=SimpleNamespace(get_node_ip_address=lambda: "10.0.0.9"))


def test_every_node_is_there_with_its_load_code_and_last_sign(ray):
    found = cluster_status(ray, "10.0.0.1:6379")
    by_host = {node.host: node for node in found.nodes}
    assert found.nodes[0].host == "host-1", "the head comes first"
    assert (by_host["host-1"].cpus_used, by_host["host-1"].code, by_host["host-1"].state) == (3.0, "same", "up")
    assert 0 <= by_host["host-1"].last_sign_seconds < 60
    assert (by_host["host-2"].code, by_host["host-2"].differences) == ("different", ["palaestra/envs/make.py"])
    assert (by_host["host-3"].state, by_host["host-3"].last_sign_seconds) == ("silent", None)
    assert by_host["host-3"].reason == "nobody answers at 10.0.0.3:1"
    assert (by_host["host-4"].state, by_host["host-4"].reason) == ("dead", "health check failed")
    assert len(found.nodes) == 5, "of one address only who is there now"
    assert [job.command for job in found.jobs] == ["palaestra eval"]


def test_a_node_says_its_versions_and_what_differs():
    code = code_identity()
    fields = {"python": code.python, "packages": code.packages, "package": code.package, "modules": {}}
    reports = describe_node(fields)
    assert set(reports["versions"]) == {"python", "ray", "palaestra"}
    assert reports["code_differences"] is None


@pytest.mark.parametrize(
    ("stdout", "problem"),
    [('{"error": "No cluster.", "hint": "Start one.", "exit_code": 1}', "No cluster."), ("", "ended with -6")],
)
def test_what_the_process_was_reported_is_raised(monkeypatch, stdout, problem):
    done = subprocess.CompletedProcess([], -6, stdout, "")
    monkeypatch.setattr(subprocess, "run", lambda *argv, **named: done)
    with pytest.raises(RunFailed, match=problem):
        read_status("10.0.0.1:6379")


def test_the_status_arrives_whole(monkeypatch):
    node = {"host": "a", "address": "10.0.0.1", "state": "up", "cpus": 2.0}
    reports = {"address": "10.0.0.1:1", "nodes": [node], "jobs": [{"address": "10.0.0.1", "pid": 3, "command": "x"}]}
    done = subprocess.CompletedProcess([], 0, f"noise\n{json.dumps(reports)}\n", "")
    monkeypatch.setattr(subprocess, "run", lambda *argv, **named: done)
    found = read_status("10.0.0.1:1")
    assert (found.nodes[0].cpus, found.jobs[0].pid) == (2.0, 3)
