"""What a script has by names: its globals, and what its functions have that are at work just now."""

from __future__ import annotations

import sys
from typing import Any

ARGUMENTS = ("args", "cfg", "config")  # as scripts call what their command line said


def names_of(script: dict[str, Any]) -> dict[str, Any]:
    """`script`: its globals. Of functions that call one another, what the outermost has counts most."""
    found: dict[str, Any] = {}
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is script and frame.f_locals is not script:
            found.update(frame.f_locals)
        frame = frame.f_back
    return {**script, **found}


def arguments_in(names: dict[str, Any]) -> Any:
    """None when there are none."""
    return next((names[name] for name in ARGUMENTS if hasattr(names.get(name), "__dict__")), None)
