"""Everything that is wrong with something, collected, then said at once."""

from __future__ import annotations

from palaestra.core.errors import UsageError


class Problems:
    def __init__(self, subject: str) -> None:
        self.subject = subject  # "The graph 'mine'"
        self.found: list[tuple[str, str]] = []  # what, hint

    def add(self, what: str, hint: str = "") -> None:
        self.found.append((what, hint))

    def raise_if_any(self) -> None:
        if len(self.found) == 1:
            what, hint = self.found[0]
            raise UsageError(f"{self.subject} cannot be built: {what}.", hint)
        if self.found:
            lines = "\n".join(f"  - {what}. {hint}".rstrip() for what, hint in self.found)
            raise UsageError(f"{self.subject} cannot be built, for {len(self.found)} reasons:\n{lines}")
