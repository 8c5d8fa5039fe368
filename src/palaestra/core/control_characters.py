"""Control characters as visible escapes, for every text from outside that reaches a terminal or a log."""

from __future__ import annotations


def escape_controls(text: str, keep: str = "") -> str:
    r"""Control, direction and line-separator characters as escapes (`\x1b`); those in `keep` stay as they are."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else repr(one)[1:-1] for one in text)
