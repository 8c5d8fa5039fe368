import pytest

from palaestra.cluster.address import (
    VARIABLE,
    Address,
    address_towards,
    cluster_of,
    common_cluster,
    configured_address,
    read_address,
)
from palaestra.config.distributed import ClusterConfig
from palaestra.core.errors import UsageError
from palaestra.core.run import RunRequest
from palaestra.runs.store import RunStore


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.5:6379", "10.0.0.5", 6379),
        ("head.lab-2.example:1", "head.lab-2.example", 1),
        ("localhost:65535", "localhost", 65535),
        ("[::1]:6379", "::1", 6379),
    ],
)
def test_an_address_is_a_host_and_a_port(text, host, port):
    assert read_address(text) == Address(host, port)
    assert str(read_address(text)) == text


@pytest.mark.fault("W13")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "auto",
        "head",
        "head:",
        ":6379",
        "head:0",
        "head:65536",
        "head:١٢",
        "head:-1",
        "ray://head:10001",
        "http://head:6379",
        "file:///etc/passwd:1",
        "user@head:6379",
        "head/..:6379",
        "head;reboot:6379",
        "head .lab:6379",
        "-head:6379",
        "::1:6379",
        "[head]:6379",
        "head\n:6379",
        f"{'a' * 254}:6379",
    ],
)
def test_anything_else_is_refused_with_its_value(text):
    with pytest.raises(UsageError) as caught:
        read_address(text)
    assert repr(text) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["127.0.0.1:1", "127.8.9.1:1", "localhost:1", "LOCALHOST:1", "[::1]:1"])
def test_only_the_loopback_is_local(text):
    assert read_address(text).is_local


@pytest.mark.fault("W13")
@pytest.mark.parametrize(
    "text", ["10.0.0.5:1", "0.0.0.0:1", "localhost.example:1", "127.0.0.1.example:1", "[fe80::1]:1"]
)
def test_what_only_looks_local_is_not(text):
    assert not read_address(text).is_local


def test_the_key_that_the_user_typed_is_named():
    with pytest.raises(UsageError, match="--address="):
        read_address("head", key="--address")


def test_the_key_wins_over_rays_variable_and_that_over_a_ray_of_ones_own(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "other:1")
    assert configured_address("head:1") == "head:1"
    assert configured_address(None) == "other:1"
    monkeypatch.delenv("RAY_ADDRESS")
    assert configured_address(None) is None


def run_with(tmp_path, name, **cluster):
    config = {"cluster": cluster} if cluster else {}
    return RunStore(tmp_path).create(RunRequest(kind="native", recipe="", config={}), config=config, name=name)


def test_a_run_that_says_nothing_means_a_ray_of_this_machine_unless_the_variable_names_one(tmp_path, monkeypatch):
    directory = run_with(tmp_path, "silent")
    assert cluster_of(directory) == ClusterConfig()
    monkeypatch.setenv(VARIABLE, "head:6379")
    assert cluster_of(directory) == ClusterConfig(address="head:6379")


def test_what_the_configuration_says_goes_before_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "head:6379")
    assert cluster_of(run_with(tmp_path, "a", address="own:1", cpus=None)) == ClusterConfig(address="own:1")
    assert cluster_of(run_with(tmp_path, "b", address=None, cpus=2)) == ClusterConfig(address="head:6379", cpus=2)


def test_several_runs_must_agree_unless_somebody_says_which(tmp_path):
    first, second = run_with(tmp_path, "a", address="one:1"), run_with(tmp_path, "b", address="two:2")
    silent = run_with(tmp_path, "c")
    assert common_cluster([first, silent, None]) == ClusterConfig(address="one:1")
    assert common_cluster([first, second], {"address": "three:3"}) == ClusterConfig(address="three:3")
    with pytest.raises(UsageError, match="different clusters: one:1, two:2"):
        common_cluster([first, second])


def test_a_run_whose_configuration_is_gone_says_nothing(tmp_path):
    directory = run_with(tmp_path, "a", address="one:1")
    directory.config_file.unlink()
    assert cluster_of(directory) == ClusterConfig()


def test_what_is_given_on_the_command_line_goes_before_all(tmp_path):
    run = run_with(tmp_path, "a", address="one:1", cpus=4)
    assert common_cluster([run], {"cpus": 2, "node_timeout": 5}) == ClusterConfig(
        address="one:1", cpus=2, node_timeout=5.0
    )


def test_settings_that_this_version_does_not_know_are_as_if_unsaid(tmp_path):
    assert cluster_of(run_with(tmp_path, "a", address="one:1", wings=2)) == ClusterConfig()


def test_the_own_address_is_the_one_on_the_route():
    assert address_towards(Address("127.0.0.1", 6379)) == "127.0.0.1"
    assert address_towards(Address("::1", 6379)) == "::1"
    with pytest.raises(UsageError, match=r"no route from this machine to no-such-host\.invalid:6379"):
        address_towards(Address("no-such-host.invalid", 6379))
