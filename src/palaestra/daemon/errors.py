"""What a daemon refuses beyond the settings of a request; the web answers each class with a code of its own.

UsageError
├── StoreInUse     another daemon serves these runs
└── Conflict       not in the state in which the run is (409)
RunFailed
├── StoreRefused   the disk said no, nothing was accepted (507)
└── QueueFull      too many wait already (503)
DamagedFile
└── DamagedIndex   the daemon's own database; `palaestra repair` makes it anew
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
