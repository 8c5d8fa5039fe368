"""How two configs differ, key by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ABSENT = object()  # not the same as None, which is a value


@dataclass(frozen=True)
class Difference:
    key_path: str  # "ppo.learning_rate.start"
    old: Any  # ABSENT where only the new one has the key
    new: Any  # ABSENT where only the old one has it

    def __str__(self) -> str:
        return f"{self.key_path}: {_shown(self.old)} -> {_shown(self.new)}"


def diff_configs(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[Difference]:
    """Sorted by key. 1 and 1.0 are equal, as numbers are; True and 1 are not; NaN equals NaN."""
    found = []
    for key in sorted(old.keys() | new.keys(), key=str):
        before, after = old.get(key, ABSENT), new.get(key, ABSENT)
        key_path = f"{prefix}{key}"
        if isinstance(before, dict) and isinstance(after, dict):
            found += diff_configs(before, after, f"{key_path}.")
        elif not _equal(before, after):
            found.append(Difference(key_path, before, after))
    return found


def format_differences(differences: list[Difference], limit: int | None = None) -> str:
    """One line each, the first `limit` of them."""
    shown = differences if limit is None else differences[:limit]
    lines = [str(difference) for difference in shown]
    hidden = len(differences) - len(shown)
    return "\n".join([*lines, f"and {hidden} more"] if hidden else lines)


def _equal(before: Any, after: Any) -> bool:
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return len(before) == len(after) and all(map(_equal, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        return not diff_configs(before, after)
    return bool(before == after) or (before != before and after != after)  # NaN is the one value unlike itself


def _shown(value: Any) -> str:
    return "(absent)" if value is ABSENT else repr(value)
