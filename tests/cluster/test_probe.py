import json
import platform
import socket
import subprocess
import time
from contextlib import closing

import pytest
import ray

from palaestra.cluster import probe
from palaestra.cluster.address import Address
from palaestra.core.errors import RunFailed, UsageError


def replying(monkeypatch, stdout="", stderr=""):
    monkeypatch.setattr(probe, "_connect", lambda address: None)
    result = subprocess.CompletedProcess([], 0, stdout, stderr)
    monkeypatch.setattr(probe.subprocess, "run", lambda *arguments, **options: result)


def test_nobody_there_is_one_clear_line():
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(RunFailed, match=f"{address}: Connection refused"):
            probe.probe(address, {})


def test_a_host_that_no_name_server_knows_is_reported_to_be_so():
    with pytest.raises(RunFailed, match="no-such-host.invalid:6379"):
        probe.probe(Address("no-such-host.invalid", 6379), {})


@pytest.mark.slow
def test_a_host_that_accepts_and_never_responds_is_given_up(monkeypatch):
    monkeypatch.setattr(probe, "ANSWER_SECONDS", 4.0)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        began = time.monotonic()
        with pytest.raises(RunFailed, match="did not respond as a Ray cluster within 4 s"):
            probe.probe(Address("127.0.0.1", silent.getsockname()[1]), {})
        assert 4 <= time.monotonic() - began < 8


def test_the_bounds_together_are_under_half_a_minute():
    assert probe.CONNECT_SECONDS + probe.ANSWER_SECONDS < 30


@pytest.mark.parametrize(
    ("ray_version", "python"), [("2.59.0", platform.python_version()), (ray.__version__, "3.12.1")]
)
def test_another_ray_or_python_is_refused_with_all_four_versions(monkeypatch, ray_version, python):
    replying(monkeypatch, json.dumps({"ray": ray_version, "python": python}))
    with pytest.raises(UsageError) as caught:
        probe.probe(Address("10.0.0.5", 6379), {})
    for word in (ray_version, python, ray.__version__, platform.python_version()):
        assert word in caught.value.message


def test_a_refused_token_is_called_that(monkeypatch):
    replying(monkeypatch, stderr="Unauthenticated: RPC error: InvalidAuthToken: Authentication token is missing")
    with pytest.raises(UsageError, match="does not accept the token"):
        probe.probe(Address("10.0.0.5", 6379), {})


def test_a_machine_outside_of_the_cluster_learns_how_to_join(monkeypatch):
    reports = {"ray": ray.__version__, "python": platform.python_version(), "error": "no raylet here"}
    replying(monkeypatch, "noise\n" + json.dumps(reports) + "\n")
    with pytest.raises(RunFailed, match="palaestra worker --address 10.0.0.5:6379 --cpus 0"):
        probe.probe(Address("10.0.0.5", 6379), {})


def test_the_same_versions_pass(monkeypatch):
    replying(monkeypatch, json.dumps({"ray": ray.__version__, "python": platform.python_version()}))
    probe.probe(Address("10.0.0.5", 6379), {})


@pytest.mark.parametrize("said", ["", "[]", '{"odd": 1}', "Segmentation fault"])
def test_an_invalid_result_of_the_child_means_no_cluster(monkeypatch, said):
    replying(monkeypatch, said)
    with pytest.raises(RunFailed, match="did not respond"):
        probe.probe(Address("10.0.0.5", 6379), {})
