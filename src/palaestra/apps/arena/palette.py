"""Colours of rendered worlds: red, green, blue from 0 to 255."""

from __future__ import annotations

Color = tuple[int, int, int]

SAND: Color = (232, 223, 203)
SAND_LIGHT: Color = (241, 234, 217)
SAND_SHADE: Color = (224, 214, 192)
PEBBLE: Color = (211, 199, 174)
SHADOW: Color = (92, 80, 66)

WALL_TOP: Color = (104, 119, 134)
WALL_EDGE: Color = (142, 157, 170)
WALL_FRONT: Color = (66, 78, 93)
WALL_FOOT: Color = (50, 60, 74)

INK: Color = (41, 44, 56)
WHITE: Color = (255, 253, 247)
ICE: Color = (196, 232, 247)
ICE_EDGE: Color = (126, 190, 222)
ASH: Color = (158, 152, 143)
CLOCK: Color = (255, 250, 236)

ORE: Color = (86, 201, 194)
BATTERY: Color = (255, 209, 84)
HEART: Color = (228, 68, 88)
ARMOUR: Color = (202, 213, 224)
CHARGE: Color = (196, 140, 255)
ITEM_COLORS: dict[str, Color] = {
    "ore": ORE,
    "battery": BATTERY,
    "heart": HEART,
    "armour": ARMOUR,
    "charge": CHARGE,
}

# Base colour of each kind of station; in cells of eight pixels it alone shows the kind.
STATION_COLORS: dict[str, Color] = {
    "mine": (110, 84, 66),
    "generator": (43, 98, 122),
    "altar": (250, 243, 232),
    "armoury": (108, 124, 158),
    "charger": (92, 62, 138),
}

# They differ in lightness too, for readers who cannot distinguish red and green.
TEAM_COLORS: tuple[Color, ...] = ((47, 116, 208), (236, 126, 54), (58, 158, 98), (186, 84, 160))


def mix(first: Color, second: Color, share: float) -> Color:
    """A mixture with `share` of the second colour."""
    red, green, blue = (round(one + (other - one) * share) for one, other in zip(first, second, strict=True))
    return red, green, blue
