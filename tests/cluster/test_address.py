import pytest

from palaestra.cluster.address import Address, asked_address, read_address
from palaestra.contracts.errors import UsageError


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
    assert asked_address("head:1") == "head:1"
    assert asked_address(None) == "other:1"
    monkeypatch.delenv("RAY_ADDRESS")
    assert asked_address(None) is None
