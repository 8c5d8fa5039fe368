"""The access token: 256 random bits in a file that only its owner may read."""

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
    """Derives the session cookie: it does not reveal the token, and a new token invalidates it."""
    return hmac.new(token.encode("ascii"), COOKIE_PURPOSE, hashlib.sha256).hexdigest()


class TokenFile:
    """The token on disk: `palaestra token --renew` replaces it, and a running daemon notices at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file_stamp: tuple[int, int, int] | None = None
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
        """Rereads the file if it changed. Empty (every token is refused) if it is missing or not private."""
        try:
            found = self._path.stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_mode)
            if stamp != self._file_stamp:
                self._token, self._file_stamp = self.read(), stamp
        except (OSError, DamagedFile):
            self._token, self._file_stamp = "", None
        return self._token


def read_token(path: Path) -> str:
    """Reads a token. Raises FileNotFoundError, or DamagedFile when others may read the file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise DamagedFile(
                f"The token file {path} can be read by others (mode {found.st_mode & 0o777:o}).",
                "Make a new one in a private file: palaestra token --renew",
            )
        text = os.read(descriptor, 4096).decode("ascii", errors="replace").strip()
    finally:
        os.close(descriptor)
    if TOKEN_PATTERN.fullmatch(text) is None:
        raise DamagedFile(f"{path} contains no token.", "Make one: palaestra token --renew")
    return text
