"""The cache of curves that a daemon keeps, and the thread that fills it before anybody asks."""

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
LOOK_SECONDS = 5.0
LEAVE_SECONDS = 0.5
LOWEST_PRIORITY = 19


def series_cache(context: AppContext) -> CurveCache:
    cache = context.services.get(SERVICE)
    if cache is None:
        cache = context.services.setdefault(SERVICE, CurveCache(cache_place(context.daemon)))
    assert isinstance(cache, CurveCache)
    return cache


def cache_place(daemon: Daemon) -> Path:
    return DaemonDirectory(daemon.root).series


@contextlib.asynccontextmanager
async def series_lifespan(context: AppContext) -> AsyncIterator[None]:
    keeper = SeriesRefresher(context.daemon, series_cache(context))
    thread = threading.Thread(target=keeper.run, name="palaestra-series", daemon=True)
    thread.start()
    try:
        yield
    finally:
        keeper.stop()
        await asyncio.to_thread(thread.join, LEAVE_SECONDS)  # a long run half laid out is begun anew by the next daemon


class SeriesRefresher:
    """Lays out the curves of runs that changed, newest first, one after another, when the machine has time for it."""

    def __init__(self, daemon: Daemon, cache: CurveCache) -> None:
        self._daemon = daemon
        self._cache = cache
        self._is_stopping = threading.Event()
        self._done: dict[str, object] = {}  # run -> what was known of it when it was last looked at

    def run(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # only where threads have priorities of their own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        self._forget_removed()
        while not self._is_stopping.is_set():
            self.look()
            self._is_stopping.wait(LOOK_SECONDS)

    def stop(self) -> None:
        self._is_stopping.set()

    def look(self) -> None:
        entries = self._daemon.runs()
        for gone in self._done.keys() - {entry.id for entry in entries}:
            self._cache.remove(gone)
            del self._done[gone]
        for entry in entries:
            if self._is_stopping.is_set():
                return
            if self._done.get(entry.id) != _mark(entry):
                self._refresh(entry)

    def _refresh(self, entry: RunEntry) -> None:
        """A run without metrics, or with damaged ones, is left to whoever asks for them."""
        self._done[entry.id] = _mark(entry)
        try:
            self._cache.refresh(self._daemon.directory(entry.id))
        except PalaestraError as error:
            logger.debug("no curves of %s: %s", entry.id, error)
        except OSError as error:
            logger.debug("no room for the curves of %s: %s", entry.id, error)

    def _forget_removed(self) -> None:
        """What an earlier daemon laid out of runs that are gone."""
        known = {entry.id for entry in self._daemon.runs()}
        with contextlib.suppress(OSError):
            for path in cache_place(self._daemon).iterdir():
                if path.name not in known:
                    self._cache.remove(path.name)


def _mark(entry: RunEntry) -> object:
    """Changes whenever the run says something new of itself."""
    record = entry.record
    return (record.state, record.updated_at, record.agent_step)
