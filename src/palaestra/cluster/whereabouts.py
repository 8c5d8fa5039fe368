"""Which Ray is meant when nobody says so: a run's configuration, then Ray's own variable, then this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from palaestra.contracts.errors import NotFound, UsageError
from palaestra.runs.documents import read_config

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.runs.directory import RunDirectory

VARIABLE = "RAY_ADDRESS"
KEY = "cluster.address"


@dataclass(frozen=True)
class Whereabouts:
    address: str | None = None  # HOST:PORT; None: a Ray of our own on this machine
    cpus: int | None = None  # that a Ray of our own offers; None: all of this machine


def whereabouts_of(directory: RunDirectory) -> Whereabouts:
    """For a training that has its checkpoints judged."""
    configured = _configured(directory)
    return configured if configured.address else replace(configured, address=os.environ.get(VARIABLE) or None)


def common_whereabouts(directories: Iterable[RunDirectory | None], address: str | None = None) -> Whereabouts:
    """For several runs at once: `address` if somebody says so; else those that name a cluster must name the same."""
    if address:
        return Whereabouts(address)
    found = sorted({one for each in directories if each is not None and (one := _configured(each).address)})
    if len(found) > 1:
        raise UsageError(
            f"These runs name different clusters: {', '.join(found)}.", f"Say which one is meant: {KEY}={found[0]}"
        )
    return Whereabouts(found[0] if found else os.environ.get(VARIABLE) or None)


def _configured(directory: RunDirectory) -> Whereabouts:
    """What the run's configuration says; a run from before there were clusters says nothing."""
    settings: Any = None
    with suppress(NotFound):
        settings = read_config(directory).get("cluster")
    if not isinstance(settings, dict):
        return Whereabouts()
    return Whereabouts(settings.get("address") or None, settings.get("cpus"))
