"""What every handler may use: the daemon, and who may come in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from palaestra.web.facts import FactBook

if TYPE_CHECKING:
    from palaestra.daemon.service import Daemon
    from palaestra.web.login import LoginCodes
    from palaestra.web.place import Place
    from palaestra.web.tokens import TokenFile


@dataclass(frozen=True)
class House:
    daemon: Daemon
    token: TokenFile
    codes: LoginCodes
    place: Place
    book: FactBook = field(default_factory=FactBook)
    rooms: dict[str, Any] = field(default_factory=dict)  # what lifespans keep for handlers, by a name
