"""Colours that can be told apart on light and on dark ground."""

from __future__ import annotations

Colour = tuple[int, int, int]

# Low, middle and high of a heat-map: they differ in lightness too, so that a grey print still shows the order.
SHADES: tuple[Colour, ...] = ((44, 52, 110), (38, 132, 142), (146, 194, 92), (246, 222, 88))
# Of curves; in the page they are classes, so that each ground has its own.
LINES_ON_LIGHT = ("#1f5fb4", "#c8501e", "#1b7f5c", "#8a3fa0", "#b3870b", "#0f8aa5", "#b32d5b", "#5b6470")
LINES_ON_DARK = ("#6ea8ff", "#ff9d6b", "#56cfa2", "#cf92e6", "#eac25a", "#5fd0e8", "#ff86ac", "#aeb7c2")


def shade_colour(shade: float) -> Colour:
    """Of a number from 0 (the lowest) to 1 (the highest)."""
    place = min(max(shade, 0.0), 1.0) * (len(SHADES) - 1)
    index = min(int(place), len(SHADES) - 2)
    part = place - index
    red, green, blue = (
        round(low + (high - low) * part) for low, high in zip(SHADES[index], SHADES[index + 1], strict=True)
    )
    return red, green, blue


def text_colour(ground: Colour) -> Colour:
    """Black or white, whichever has the greater contrast."""
    return (0, 0, 0) if contrast(ground, (0, 0, 0)) >= contrast(ground, (255, 255, 255)) else (255, 255, 255)


def contrast(one: Colour, other: Colour) -> float:
    """1 for equal ones to 21 for black on white, as the accessibility guidelines of the web define it."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def hexadecimal(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _luminance(colour: Colour) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
