"""JSON for people, letter for letter as `json.dumps(…, indent=2)` writes it, and nothing left behind.

Every time the standard one indents, it makes some thirty objects that hold each other, for the collector to find. A
training that writes its status every second makes no others, and nothing that would have the collector look for them.
"""

from __future__ import annotations

import json
from typing import Any

_word = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def indented(value: Any, line: str = "\n") -> str:
    """Of plain data whose keys are texts; `line` begins a new line where the value stands."""
    inner = f"{line}  "
    if isinstance(value, dict) and value:
        entries = [f"{_word(key)}: {indented(entry, inner)}" for key, entry in value.items()]
        return f"{{{inner}{f',{inner}'.join(entries)}{line}}}"
    if isinstance(value, list | tuple) and value:
        return f"[{inner}{f',{inner}'.join([indented(entry, inner) for entry in value])}{line}]"
    return repr(value) if type(value) is int else _word(value)
