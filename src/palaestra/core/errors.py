"""The exceptions that users see.

`message` says what is wrong, with the value; `hint` says what to try.
The command line prints both and exits with `exit_code`; no other module calls `sys.exit`.

    PalaestraError
    ├── UsageError            2   an invalid key, value or combination
    │   ├── RequestRefused        an invalid request, with all its errors (core/worker_kind)
    │   ├── Conflict              not possible in the current state of the run (daemon/errors)
    │   ├── MetricsInUse          another process writes or reads these metrics (runs/metrics/writer)
    │   └── StoreInUse            another daemon serves these runs (daemon/errors)
    ├── NotFound              3   a run, recipe, checkpoint or environment that is not there
    ├── MissingPackage        4   a package that is not installed, with how to install it
    │   └── MissingExtra          an optional dependency, with the extra that installs it
    ├── RunFailed             1   training or evaluation could not go on
    │   ├── StoreRefused          the disk refused the write, nothing was accepted (daemon/errors)
    │   ├── QueueFull             too many queued runs (daemon/errors)
    │   ├── NonFinite             NaN or infinity, caught before the step was taken
    │   ├── RanksFailed           the error of the first rank that failed (runner/restarts)
    │   └── PeerLost              another rank ended, or does not answer (training/group)
    ├── SaveFailed            1   a checkpoint could not be written (checkpoints/files)
    ├── DamagedFile           1   a file of ours that does not verify
    │   ├── DamagedIndex          the daemon's own database (daemon/errors)
    │   ├── NewerFormat           a file that a newer version wrote (runs/files)
    │   └── RefusedFile           a file that could run code if we let it
    ├── NotAnAlgorithm        1   a scheme that does not multiply matrices (apps/matmul)
    ├── EnvCheckFailed        1   what `check_env` found (testing/check_env)
    ├── HttpError                 an HTTP status of its own (web/responses)
    └── BelowScore            5   `--min-score` was not reached
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class PalaestraError(Exception):
    """Base class: what is wrong, and what to try."""

    exit_code = 1
    user_traceback = ""  # of the user's code that raised, where that is the cause; see core/tracebacks
    is_posted = False  # the other ranks of a training know it

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Message and hint, safe to print: control characters in values are escaped."""
        return escape_controls(f"{self.message} {self.hint}".strip(), keep="\n\t")


class UsageError(PalaestraError):
    exit_code = 2


class NotFound(PalaestraError):
    exit_code = 3


class MissingPackage(PalaestraError):
    """Something that the user's choice needs is not installed."""

    exit_code = 4


class MissingExtra(MissingPackage):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}'.", f"Install it with: pip install 'palaestra[{extra}]'")
        self.extra = extra


class RunFailed(PalaestraError):
    exit_code = 1


class NonFinite(RunFailed):
    """NaN or infinity in a loss, gradient, observation or reward; the step was not taken."""


class DamagedFile(PalaestraError):
    exit_code = 1


class RefusedFile(DamagedFile):
    """The file could run code if it were loaded; we do not load it."""


class BelowScore(PalaestraError):
    exit_code = 5


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`Did you mean 'arena.basic'?`, or an empty string when nothing is near."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"Did you mean '{near[0]}'?" if near else ""


def escape_controls(text: str, keep: str = "") -> str:
    r"""Control, direction and line-separator characters as escapes (`\x1b`); those in `keep` stay as they are."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else repr(one)[1:-1] for one in text)
