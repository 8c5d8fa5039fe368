"""The daemon's address and names: only their exact Host and Origin headers are accepted."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Literal

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
HOST_PATTERN = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
DEFAULT_PORTS = {"http": 80, "https": 443}

HostCheck = Literal["allowed", "foreign", "malformed"]


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bracketed(host: str) -> str:
    """Formats a host as in a URL: IPv6 addresses get brackets."""
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True)
class ServerAddress:
    host: str  # as bound: "127.0.0.1", "::1", "0.0.0.0"
    port: int
    scheme: str = "http"  # or "https"
    names: tuple[str, ...] = field(default=())  # additional allowed names, with or without a port

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def authorities(self) -> frozenset[str]:
        """Every allowed `Host` in lower case; for the default port also without the port."""
        plain = [*LOOPBACK_NAMES] if is_loopback(self.host) or self.is_wildcard else []
        plain += [] if self.is_wildcard else [bracketed(self.host)]
        plain += [name for name in self.names if not re.search(r":\d+$", name)]
        found = {f"{name.lower()}:{self.port}" for name in plain}
        found |= {name.lower() for name in self.names if re.search(r":\d+$", name)}
        if self.port == DEFAULT_PORTS[self.scheme]:
            found |= {name.lower() for name in plain}
        return frozenset(found)

    @property
    def is_wildcard(self) -> bool:
        return self.host in {"0.0.0.0", "::"}  # noqa: S104  compared, not bound

    @property
    def url(self) -> str:
        """The URL for users and for the client on this machine."""
        host = "127.0.0.1" if self.is_wildcard else self.host
        return f"{self.scheme}://{bracketed(host)}:{self.port}"

    def check_host(self, text: str) -> HostCheck:
        if HOST_PATTERN.fullmatch(text) is None:
            return "malformed"
        return "allowed" if text.lower() in self.authorities else "foreign"


def is_well_formed_origin(text: str) -> bool:
    """Whether a browser could send this: scheme, name, optional port; or `null`, which is never allowed."""
    scheme, _, authority = text.partition("://")
    is_pair = re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) is not None and HOST_PATTERN.fullmatch(authority) is not None
    return text == "null" or is_pair
