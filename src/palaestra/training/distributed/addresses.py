"""Through which address of this machine the ranks are to connect to each other.

gloo by itself takes the address of the machine's host name. That is the loopback address where the name does not
resolve, or resolves to 127.0.1.1 as on Debian, and then no other machine can connect. Here the routing table decides:
the address from which rank 0 is reached is the one at which the others can be reached.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LOOPBACK = "127.0.0.1"
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"  # torch's own variable; a list of names, of which the first one counts here
NCCL_INTERFACE = "NCCL_SOCKET_IFNAME"
ANY_PORT = 9  # connecting a datagram socket sends nothing, so the port does not matter


@dataclass(frozen=True)
class Endpoint:
    """One address of this machine and the interface that has it."""

    address: str
    interface: str  # empty: no interface has this address

    def __str__(self) -> str:
        return f"{self.address} ({self.interface})" if self.interface else self.address


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def source_address(target: str) -> str:
    """The address of this machine from which packets to `target` (name or address) leave; empty: no route, no name."""
    try:
        found = socket.getaddrinfo(target, ANY_PORT, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return ""
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
        except OSError:  # this family has no route; the next one may
            continue
    return ""


def list_interfaces() -> dict[str, list[str]]:
    """Addresses by interface; those of IPv4 come first, link-local ones of IPv6 are left out."""
    found: dict[str, list[str]] = {}
    for name, entries in psutil.net_if_addrs().items():
        for family in (socket.AF_INET, socket.AF_INET6):
            own = [entry.address for entry in entries if entry.family == family]
            found.setdefault(name, []).extend(address for address in own if not address.startswith("fe80"))
    return {name: addresses for name, addresses in found.items() if addresses}


def endpoint_of(address: str, interfaces: Mapping[str, list[str]] | None = None) -> Endpoint:
    known = list_interfaces() if interfaces is None else interfaces
    return Endpoint(address, next((name for name, own in known.items() if address in own), ""))


def requested_interface(setting: str, variables: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """The interface that the user chose, and where: `distributed.interface` wins over GLOO_SOCKET_IFNAME."""
    if setting:
        return setting, f"distributed.interface={setting}"
    name = variables.get(GLOO_INTERFACE, "").partition(",")[0].strip()
    return name, f"{GLOO_INTERFACE}={name}"


def endpoint_on(interface: str, origin: str, towards: str) -> Endpoint:
    """The address of a chosen interface, of the same family as `towards` where it has one."""
    known = list_interfaces()
    if interface not in known:
        having = ", ".join(f"{name} ({own[0]})" for name, own in sorted(known.items()))
        raise UsageError(
            f"{origin}: this machine ({socket.gethostname()}) has no network interface '{interface}' with an address.",
            f"It has: {having or 'none'}.",
        )
    own = known[interface]
    is_six = ":" in (source_address(towards) or towards)
    return Endpoint(next((address for address in own if (":" in address) == is_six), own[0]), interface)


def find_endpoint(own_source: str, others: Iterable[str]) -> Endpoint:
    """Without a configured interface. `own_source`: the address towards rank 0; `others`: ranks on other machines.

    On the machine of rank 0 itself that may be the loopback address; then the way to another machine decides.
    """
    if own_source and not is_loopback(own_source):
        return endpoint_of(own_source)
    for other in others:
        found = source_address(other) if other and not is_loopback(other) else ""
        if found and not is_loopback(found):
            return endpoint_of(found)
    return endpoint_of(own_source or LOOPBACK)
