"""Numbers of bytes, as people read them."""

from __future__ import annotations

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def format_bytes(count: float) -> str:
    """1.5 MB: three digits, in powers of a thousand."""
    unit = 0
    while count >= 1000 and unit < len(UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} B" if unit == 0 else f"{count:.3g} {UNITS[unit]}"
