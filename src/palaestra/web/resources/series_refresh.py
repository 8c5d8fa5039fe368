"""Fills the daemon's cache of metric series in a background thread, before the page requests them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING

from palaestra.core.errors import PalaestraError
from palaestra.daemon.settings import DaemonDirectory
from palaestra.runs.metrics.curve_cache import CurveCache

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from palaestra.daemon.run_entry import RunEntry
    from palaestra.daemon.service import Daemon
    from palaestra.web.context import AppContext

logger = logging.getLogger(__name__)

SERVICE = "series"
INTERVAL_SECONDS = 5.0
JOIN_SECONDS = 0.5
LOWEST_PRIORITY = 19


def series_cache(context: AppContext) -> CurveCache:
    cache = context.services.get(SERVICE)
    if cache is None:
        cache = context.services.setdefault(SERVICE, CurveCache(cache_directory(context.daemon)))
    assert isinstance(cache, CurveCache)
    return cache


def cache_directory(daemon: Daemon) -> Path:
    return DaemonDirectory(daemon.root).series


@contextlib.asynccontextmanager
async def series_lifespan(context: AppContext) -> AsyncIterator[None]:
    refresher = SeriesRefresher(context.daemon, series_cache(context))
    thread = threading.Thread(target=refresher.run, name="palaestra-series", daemon=True)
    thread.start()
    try:
        yield
    finally:
        refresher.stop()
        await asyncio.to_thread(thread.join, JOIN_SECONDS)  # the next daemon starts an unfinished run again


class SeriesRefresher:
    """Caches the series of changed runs, newest first, at the lowest priority."""

    def __init__(self, daemon: Daemon, cache: CurveCache) -> None:
        self._daemon = daemon
        self._cache = cache
        self._is_stopping = threading.Event()
        self._done: dict[str, object] = {}  # run -> its version when it was cached

    def run(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # only where threads have priorities
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        self._remove_stale()
        while not self._is_stopping.is_set():
            self.refresh_changed()
            self._is_stopping.wait(INTERVAL_SECONDS)

    def stop(self) -> None:
        self._is_stopping.set()

    def refresh_changed(self) -> None:
        entries = self._daemon.runs()
        for gone in self._done.keys() - {entry.id for entry in entries}:
            self._cache.remove(gone)
            del self._done[gone]
        for entry in entries:
            if self._is_stopping.is_set():
                return
            if self._done.get(entry.id) != _version(entry):
                self._refresh(entry)

    def _refresh(self, entry: RunEntry) -> None:
        """Caches a run; errors are reported when its series are requested."""
        self._done[entry.id] = _version(entry)
        try:
            self._cache.refresh(self._daemon.directory(entry.id))
        except PalaestraError as error:
            logger.debug("no series of %s: %s", entry.id, error)
        except OSError as error:
            logger.debug("cannot cache the series of %s: %s", entry.id, error)

    def _remove_stale(self) -> None:
        """Removes cached series of runs that no longer exist."""
        known = {entry.id for entry in self._daemon.runs()}
        with contextlib.suppress(OSError):
            for path in cache_directory(self._daemon).iterdir():
                if path.name not in known:
                    self._cache.remove(path.name)


def _version(entry: RunEntry) -> object:
    """Returns a value that changes with every status update of the run."""
    record = entry.record
    return (record.state, record.updated_at, record.agent_step)
