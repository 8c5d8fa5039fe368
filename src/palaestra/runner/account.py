"""What a rank says to its launcher before it leaves: one line of JSON through a pipe."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass

from palaestra.core.errors import PalaestraError

PIPE = "PALAESTRA_ACCOUNT_FD"
MAX_TEXT = 4000  # characters; the launcher reads only after the end, and a pipe holds 64 KiB


@dataclass(frozen=True)
class Account:
    exit_code: int
    at: float  # seconds of the monotonic clock, which all processes of a machine share
    directory: str = ""  # of the run, when there is an outcome
    error: str = ""  # empty: it ended in order
    hint: str = ""
    user_traceback: str = ""
    is_consequence: bool = False  # another rank was the cause


def account_of(error: BaseException, *, is_consequence: bool) -> Account:
    now = time.monotonic()
    if not isinstance(error, PalaestraError):
        text = f"{type(error).__name__}: {error}"
        return Account(1, now, error=text[:MAX_TEXT], is_consequence=is_consequence)
    return Account(
        error.exit_code,
        now,
        error=error.message[:MAX_TEXT],
        hint=error.hint[:MAX_TEXT],
        user_traceback=error.user_traceback,
        is_consequence=is_consequence,
    )


def give(account: Account) -> None:
    """To whoever started this process with a pipe for it."""
    os.write(int(os.environ[PIPE]), json.dumps(asdict(account)).encode())


def read(text: bytes) -> Account | None:
    """None when the rank was ended in the middle of its word."""
    try:
        return Account(**json.loads(text))
    except (ValueError, TypeError):
        return None
