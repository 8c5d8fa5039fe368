"""Ray's token, which protects a cluster, found where Ray expects it. Its value is never printed or logged."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palaestra.cluster.address import Address

MODE = "RAY_AUTH_MODE"
TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105  the names of variables, not secrets
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"  # noqa: S105
BITS = 256
TOKEN_HINT = f"Copy the head's ~/.ray/auth_token to this machine (or set {TOKEN_PATH}); see docs/cluster.md."


@dataclass(frozen=True)
class Token:
    """Where a token was found; Ray reads it itself."""

    source: str


def find_token(variables: Mapping[str, str], home: Path | None = None) -> Token | None:
    """In Ray's own order: the variable, the file that a variable names, the file in the home directory."""
    if variables.get(TOKEN, "").strip():
        return Token(TOKEN)
    if named := variables.get(TOKEN_PATH):
        if not _has_content(Path(named)):
            raise UsageError(f"{TOKEN_PATH}={named!r} is not a readable file with a token.", TOKEN_HINT)
        return Token(named)
    usual = default_path(home)
    return Token(str(usual)) if _has_content(usual) else None


def default_path(home: Path | None = None) -> Path:
    return (home if home is not None else Path.home()) / ".ray" / "auth_token"


def access(address: Address, variables: Mapping[str, str], home: Path | None = None) -> dict[str, str]:
    """Ray's environment variables for a session at `address`; without a token only this machine is allowed."""
    mode = variables.get(MODE, "").lower()
    if mode not in {"", "token", "disabled"}:
        raise UsageError(f"Unknown value of {MODE}: {mode!r}.", f"Set {MODE}=token.")
    if mode == "disabled":
        if address.is_local:
            return {MODE: "disabled"}
        raise UsageError(
            f"{MODE}=disabled, and {address} is not this machine: anyone could run code there.",
            f"Unset {MODE}, and start the cluster's head with 'palaestra worker --head' or with {MODE}=token.",
        )
    if find_token(variables, home) is not None:
        return {MODE: "token"}
    if mode == "token":
        raise UsageError(f"{MODE}=token, but there is no token.", TOKEN_HINT)
    if not address.is_local:
        raise UsageError(f"The cluster at {address} is not this machine, and there is no token for it.", TOKEN_HINT)
    return {MODE: "disabled"}


def fresh_access() -> dict[str, str]:
    """A new token for a cluster that ends with this process."""
    return {MODE: "token", TOKEN: secrets.token_hex(BITS // 8)}


def write_new_token(home: Path | None = None) -> Token:
    """A new token where Ray looks for one, readable by its owner alone (Ray's own command leaves that to the umask)."""
    path = default_path(home)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        os.fchmod(descriptor, 0o600)
        file.write(secrets.token_hex(BITS // 8))
    return Token(str(path))


def _has_content(path: Path) -> bool:
    try:
        return bool(path.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError):
        return False
