"""A soak as a picture: how large the daemon was over the minutes, and where it was killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH, PANEL, LEFT, TOP, GAP = 720, 120, 56, 30, 34  # pixels
INK, LINE, FAULT, KILLED = "#777", "#3a7bd5", "#ccc", "#d9534f"
PANELS = {"rss_mb": "daemon, MB", "descriptors": "descriptors", "recovered_after": "at work again after, s"}


def curve(found: Mapping[str, Any]) -> str:
    """SVG. Thin lines are faults; red ones ended the daemon, and another process goes on from there."""
    samples = found["samples"]
    last = max(samples[-1]["second"], 1.0)
    height = TOP + len(PANELS) * (PANEL + GAP)
    title = f"{found['minutes']:g} minutes, {len(samples) - 1} faults, seed {found['seed']}"
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
            f' font-size="11" fill="{INK}">'
        ),
        f'<text x="{LEFT}" y="16">{title}</text>',
    ]
    for number, (key, name) in enumerate(PANELS.items()):
        parts += _panel(samples, key, name, last, TOP + number * (PANEL + GAP))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(samples: Sequence[Mapping[str, Any]], key: str, name: str, last: float, top: int) -> list[str]:
    """Heights begin at 0: what is flat must look flat."""
    points = [(sample["second"], sample[key]) for sample in samples if key in sample]
    most = max([value for _, value in points] or [0.0]) or 1.0
    bottom = top + PANEL

    def across(second: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 10) * second / last, 1)

    places = " ".join(f"{across(second)},{round(bottom - PANEL * value / most, 1)}" for second, value in points)
    faults = [
        f'<path d="M{across(sample["second"])} {top}V{bottom}" stroke="'
        f'{KILLED if sample["fault"] == "kill_daemon" else FAULT}" stroke-width="0.6"/>'
        for sample in samples
        if sample["fault"]
    ]
    return [
        *faults,
        f'<path d="M{LEFT} {top}V{bottom}H{WIDTH - 10}" fill="none" stroke="{INK}" stroke-width="0.8"/>',
        f'<polyline points="{places}" fill="none" stroke="{LINE}" stroke-width="1.5"/>',
        f'<text x="{LEFT - 6}" y="{top + 8}" text-anchor="end">{most:g}</text>',
        f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{LEFT + 4}" y="{top - 4}">{name}</text>',
        f'<text x="{WIDTH - 10}" y="{bottom + 13}" text-anchor="end">{last / 60:.1f} min</text>',
    ]
