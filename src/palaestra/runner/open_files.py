"""How many files this process may open: too few end a training at a random place, so they are refused at its start."""

from __future__ import annotations

import resource

from palaestra.core.errors import UsageError

LEAST = 64  # a run's own files, loggers, libraries that are loaded meanwhile


def require_open_files(least: int = LEAST) -> None:
    """Raise the soft limit to the hard one where it is low; `UsageError` when that does not suffice."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_enough(soft, least):
        return
    if not _is_enough(hard, least):
        raise UsageError(
            f"This process may open only {hard} files; training needs at least {least}.",
            "Raise the limit in this shell (ulimit -n 1024), or in the service or container that starts it.",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _is_enough(limit: int, least: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= least
