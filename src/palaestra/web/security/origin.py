"""Where the daemon is reached, and by which names: exact Host and Origin follow from it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Literal

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
HOST_PATTERN = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
DEFAULT_PORTS = {"http": 80, "https": 443}

Verdict = Literal["ours", "foreign", "malformed"]


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bracketed(host: str) -> str:
    """As it stands in a URL."""
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True)
class Place:
    host: str  # as bound: "127.0.0.1", "::1", "0.0.0.0"
    port: int
    scheme: str = "http"  # or "https"
    names: tuple[str, ...] = field(default=())  # further names by which it may be reached, with or without a port

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def authorities(self) -> frozenset[str]:
        """Every `Host` that is ours, lower case; with the default port also without one."""
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
        """For people and for the client on this machine."""
        host = "127.0.0.1" if self.is_wildcard else self.host
        return f"{self.scheme}://{bracketed(host)}:{self.port}"

    def judge_host(self, text: str) -> Verdict:
        if HOST_PATTERN.fullmatch(text) is None:
            return "malformed"
        return "ours" if text.lower() in self.authorities else "foreign"


def is_readable_origin(text: str) -> bool:
    """As a browser writes it: scheme, name, perhaps a port; or `null`, which is readable and never ours."""
    scheme, _, authority = text.partition("://")
    is_pair = re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) is not None and HOST_PATTERN.fullmatch(authority) is not None
    return text == "null" or is_pair
