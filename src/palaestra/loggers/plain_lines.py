"""Where there is no terminal: lines on stderr, without rich, whose import takes longer than ten small updates."""

from __future__ import annotations

import sys
from typing import TextIO


class PlainLines:
    @property
    def file(self) -> TextIO:
        """As it is now: whoever captures stderr replaces it."""
        return sys.stderr

    def say(self, line: str) -> None:
        self.file.write(f"{line}\n")
        self.file.flush()
