"""Errors of a daemon beyond invalid requests; the API maps each class to a status (`web/responses.py`).

UsageError
├── StoreInUse     another daemon serves this runs directory
└── Conflict       not possible in the state of the run (409)
RunFailed
├── StoreRefused   the disk refused the write, nothing was accepted (507)
└── QueueFull      too many runs are queued (503)
DamagedFile
└── DamagedIndex   the daemon's own database; `palaestra repair` rebuilds it
"""

from __future__ import annotations

from palaestra.core.errors import DamagedFile, RunFailed, UsageError


class StoreInUse(UsageError):
    def __init__(self, message: str, hint: str = "", pid: int | None = None) -> None:
        super().__init__(message, hint)
        self.pid = pid


class Conflict(UsageError):
    pass


class StoreRefused(RunFailed):
    pass


class QueueFull(RunFailed):
    pass


class DamagedIndex(DamagedFile):
    pass
