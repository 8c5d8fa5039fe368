"""The address of the cluster: from the configuration of a run, then from `RAY_ADDRESS`, else an embedded Ray.

An address is `HOST:PORT` and nothing else, so that no other scheme of Ray's can be smuggled in.
"""

from __future__ import annotations

import ipaddress
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from palaestra.config.distributed import ClusterConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.runs.documents import read_config
from palaestra.training.distributed.addresses import source_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from palaestra.runs.directory import RunDirectory

HOST_NAME = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
LAST_PORT = 65535
VARIABLE = "RAY_ADDRESS"
KEY = "cluster.address"


@dataclass(frozen=True)
class Address:
    host: str  # a name, an IPv4 address, or an IPv6 address without brackets
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only processes of this machine can be there; the machine's host name is reachable for others."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def configured_address(configured: str | None) -> str | None:
    """`cluster.address`, else `RAY_ADDRESS`; None: an embedded Ray."""
    return configured or os.environ.get(VARIABLE) or None


def cluster_of(directory: RunDirectory) -> ClusterConfig:
    """The cluster settings of a run whose checkpoints are evaluated remotely."""
    configured = _configured(directory)
    return configured.model_copy(update={"address": configured_address(configured.address)})


def common_cluster(directories: Iterable[RunDirectory | None], given: Mapping[str, Any] | None = None) -> ClusterConfig:
    """The cluster settings for several runs: those of the command line, else the one cluster that the runs name."""
    given = dict(given or {})
    if not given.get("address"):
        found = sorted({one for each in directories if each is not None and (one := _configured(each).address)})
        if len(found) > 1:
            raise UsageError(
                f"These runs name different clusters: {', '.join(found)}.", f"Choose one of them: {KEY}={found[0]}"
            )
        given["address"] = configured_address(found[0] if found else None)
    return ClusterConfig(**given)


def _configured(directory: RunDirectory) -> ClusterConfig:
    """The cluster section of the run's configuration; the defaults for an old run without one."""
    settings: Any = None
    with suppress(NotFound):
        settings = read_config(directory).get("cluster")
    try:
        return ClusterConfig.model_validate(settings or {})
    except ValidationError:  # written by another version
        return ClusterConfig()


def address_towards(address: Address) -> str:
    """This machine's own address on the route to `address`; the host name may resolve to a loopback address."""
    own = source_address(address.host)
    if not own:
        raise UsageError(
            f"There is no route from this machine to {address}, or its name does not resolve.",
            "Check the address and the network.",
        )
    return own


def read_address(text: str, *, key: str = KEY) -> Address:
    """`10.0.0.5:6379`, `head.lab:6379`, `[::1]:6379`; `key` is what the user calls it."""
    host, colon, port = text.rpartition(":")
    if "://" in text:
        raise _refusal(key, text, "Ray's other schemes are not supported; write the address of the head alone.")
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
