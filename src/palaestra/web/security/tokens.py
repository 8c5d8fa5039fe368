"""The token that opens the door: 256 random bits in a file that only its owner may read."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from typing import TYPE_CHECKING

from palaestra.core.errors import DamagedFile
from palaestra.runs.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

TOKEN_BYTES = 32
TOKEN_PATTERN = re.compile(r"[A-Za-z0-9_-]{43}")
COOKIE_PURPOSE = b"palaestra session cookie"


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def cookie_value(token: str) -> str:
    """What a signed-in browser shows instead: it cannot be turned back into the token, and a new token ends it."""
    return hmac.new(token.encode("ascii"), COOKIE_PURPOSE, hashlib.sha256).hexdigest()


class TokenFile:
    """The file is the truth: `palaestra token --renew` replaces it, and a running daemon notices at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._token = ""

    def ensure(self) -> str:
        """The token, made now when there is none; a file that others could read is refused."""
        if not self._path.exists():
            self.renew()
        return self.read()

    def renew(self) -> str:
        token = new_token()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(self._path, token + "\n")
        return token

    def read(self) -> str:
        return read_token(self._path)

    def is_token(self, given: str) -> bool:
        token = self._current()
        return bool(token) and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("ascii"))

    def is_cookie(self, given: str) -> bool:
        token = self._current()
        return bool(token) and hmac.compare_digest(
            given.encode("utf-8", "replace"), cookie_value(token).encode("ascii")
        )

    def _current(self) -> str:
        """Read again only when the file is another one; empty (nobody enters) when it is gone or not ours."""
        try:
            found = self._path.stat()
            mark = (found.st_ino, found.st_mtime_ns, found.st_mode)
            if mark != self._seen:
                self._token, self._seen = self.read(), mark
        except (OSError, DamagedFile):
            self._token, self._seen = "", None
        return self._token


def read_token(path: Path) -> str:
    """FileNotFoundError when there is none."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise DamagedFile(
                f"The token file {path} can be read by others (mode {found.st_mode & 0o777:o}).",
                "Somebody may know it: palaestra token --renew makes a new one in a file for you alone.",
            )
        text = os.read(descriptor, 4096).decode("ascii", errors="replace").strip()
    finally:
        os.close(descriptor)
    if TOKEN_PATTERN.fullmatch(text) is None:
        raise DamagedFile(f"{path} holds no token.", "Make a new one: palaestra token --renew")
    return text
