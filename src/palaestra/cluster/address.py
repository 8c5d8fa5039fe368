"""Where a cluster is: `HOST:PORT` and nothing else, so that no other scheme of Ray's can be smuggled in."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass

from palaestra.contracts.errors import UsageError

HOST_NAME = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
LAST_PORT = 65535
VARIABLE = "RAY_ADDRESS"


@dataclass(frozen=True)
class Address:
    host: str  # a name, an IPv4 address, or an IPv6 address without brackets
    port: int

    @property
    def is_local(self) -> bool:
        """Only this machine's processes can be there. The machine's own name is not enough: others know it too."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def asked_address(configured: str | None) -> str | None:
    """`cluster.address`, else Ray's own variable; None: a Ray of one's own."""
    return configured or os.environ.get(VARIABLE) or None


def read_address(text: str, *, key: str = "cluster.address") -> Address:
    """`10.0.0.5:6379`, `head.lab:6379`, `[::1]:6379`; `key` is what the user calls it."""
    host, colon, port = text.rpartition(":")
    if "://" in text:
        raise _refusal(key, text, "Ray's other schemes are not taken; write the address of the head alone.")
    if not colon:
        raise _refusal(key, text, f"The port is missing, as in {text or 'head'}:6379.")
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= LAST_PORT):
        raise _refusal(key, text, f"The port is a number from 1 to {LAST_PORT}.")
    return Address(_read_host(host, key, text), int(port))


def _read_host(host: str, key: str, text: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        try:
            return str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            raise _refusal(key, text, "Between the brackets there must be an IPv6 address.") from None
    if not HOST_NAME.fullmatch(host):
        raise _refusal(key, text, "A host is a name or an IP address; IPv6 is written in brackets.")
    return host


def _refusal(key: str, text: str, hint: str) -> UsageError:
    return UsageError(f"{key}={text!r} is not an address of the form HOST:PORT.", hint)
