"""Which address a rank connects from. Machines with real networks of their own are in tests/machines."""

import socket

import pytest

from palaestra.core.errors import UsageError
from palaestra.training.distributed import addresses
from palaestra.training.distributed.addresses import (
    Endpoint,
    endpoint_on,
    find_endpoint,
    is_loopback,
    list_interfaces,
    requested_interface,
    source_address,
)

ALPHA, BETA = "10.77.0.1", "10.77.0.2"


@pytest.fixture
def two_networks(monkeypatch):
    """A machine like Debian's: its name is 127.0.1.1, and eth1 leads to the others."""
    routes = {"alpha": "127.0.1.1", BETA: ALPHA, "fd00:77::2": "fd00:77::1"}
    monkeypatch.setattr(addresses, "source_address", lambda target: routes.get(target, ""))
    known = {"lo": ["127.0.0.1", "::1"], "eth0": ["192.168.1.5"], "eth1": [ALPHA, "fd00:77::1"]}
    monkeypatch.setattr(addresses, "list_interfaces", lambda: known)


def test_the_way_to_this_machine_itself_is_loopback():
    assert source_address("127.0.0.1") == "127.0.0.1"
    assert is_loopback(source_address("localhost"))
    assert source_address("no-such-host.invalid") == ""


def test_the_loopback_interface_is_listed_with_its_address():
    assert "127.0.0.1" in list_interfaces()["lo"]


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.1.1", True), ("::1", True), ("10.0.0.1", False), ("fe80::1%eth0", False), ("alpha", False)],
)
def test_loopback_addresses_are_known(address, expected):
    assert is_loopback(address) is expected


def test_the_address_towards_rank_0_decides(two_networks):
    assert find_endpoint(ALPHA, []) == Endpoint(ALPHA, "eth1")
    assert find_endpoint("fd00:77::1", []) == Endpoint("fd00:77::1", "eth1")


@pytest.mark.parametrize("peer", [BETA, "fd00:77::2"])
def test_where_that_is_loopback_a_peer_of_another_machine_decides(two_networks, peer):
    assert find_endpoint("127.0.1.1", ["127.0.0.1", peer]).interface == "eth1"


def test_where_nobody_else_can_be_reached_it_stays_loopback(two_networks):
    assert find_endpoint("127.0.1.1", ["127.0.1.1"]).address == "127.0.1.1"
    assert find_endpoint("", []) == Endpoint("127.0.0.1", "lo")


def test_a_chosen_interface_gives_the_address_of_the_same_family(two_networks):
    assert endpoint_on("eth1", "", BETA).address == ALPHA
    assert endpoint_on("eth1", "", "fd00:77::2").address == "fd00:77::1"
    assert endpoint_on("eth0", "", "fd00:77::2").address == "192.168.1.5"


def test_an_interface_that_does_not_exist_is_refused_with_those_that_do(two_networks):
    with pytest.raises(UsageError) as refusal:
        endpoint_on("eth7", "distributed.interface=eth7", BETA)
    assert "distributed.interface=eth7" in refusal.value.message
    assert socket.gethostname() in refusal.value.message
    assert refusal.value.hint == f"It has: eth0 (192.168.1.5), eth1 ({ALPHA}), lo (127.0.0.1)."


def test_the_setting_wins_over_the_variable_of_torch():
    variables = {"GLOO_SOCKET_IFNAME": "eth1,eth2"}
    assert requested_interface("eth0", variables) == ("eth0", "distributed.interface=eth0")
    assert requested_interface("", variables) == ("eth1", "GLOO_SOCKET_IFNAME=eth1")
    assert requested_interface("", {})[0] == ""
