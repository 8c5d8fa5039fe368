"""A world as text for a terminal: two columns for each cell, so that it is about square."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from palaestra.apps.arena import palette
from palaestra.apps.arena.draw import station_state
from palaestra.apps.arena.tables import COOLING, EXHAUSTED, ITEMS, PRODUCT, READY, STATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.apps.arena.palette import Color
    from palaestra.apps.arena.state import WorldState

RESET = "\x1b[0m"
COLUMNS = 2  # for each cell
LEGEND_LINES = 2
ARROWS = "^>v<"  # by facing
FULL_ARROWS = "▲▶▼◀"  # of agents that carry a heart
STATION_LETTERS = {"mine": "M", "generator": "G", "altar": "A", "armoury": "S", "charger": "C"}  # S: shields
STATE_MARKS = {READY: "+", COOLING: "-", EXHAUSTED: "x"}
FROZEN_MARK = "*"
OWN_MARK = "@"  # the agent that is followed, or played by hand


class Cell(NamedTuple):
    text: str
    front: Color
    back: Color


WALL = Cell("##", palette.WALL_EDGE, palette.WALL_TOP)
FLOOR = Cell("  ", palette.INK, palette.SAND)


def world_text(
    state: WorldState,
    *,
    color: bool,
    own: int | None = None,
    own_label: str = "you",
    columns: int | None = None,
    lines: int | None = None,
) -> str:
    """The map and a legend of two lines. Characters alone distinguish everything; colour is optional.

    When the map is larger than `columns` and `lines` allow, the part around agent `own` (or 0) is shown. `own_label`
    is the legend's explanation of that agent's symbol.
    """
    rows = _cells(state, own)
    center = state.agents[own or 0, :2].tolist() if len(state.agents) else [0, 0]
    top, bottom = _window(state.height, center[0], None if lines is None else lines - LEGEND_LINES)
    left, right = _window(state.width, center[1], None if columns is None else columns // COLUMNS)
    shown = [_line(row[left:right], color=color) for row in rows[top:bottom]]
    return "\n".join([*shown, *legend(state, color=color, own_label="" if own is None else own_label)])


def legend(state: WorldState, *, color: bool, own_label: str = "") -> list[str]:
    """Two lines that explain the symbols of this world."""
    kinds = [STATIONS[kind] for kind in sorted(set(state.stations[:, 2].tolist()))]
    teams = sorted(set(state.agents[:, 4].tolist()))
    first = [f"{_line([_station(name, READY)], color=color)} {name}" for name in kinds]
    marks = [f"{STATE_MARKS[READY]} ready", f"{STATE_MARKS[COOLING]} cooling", f"{STATE_MARKS[EXHAUSTED]} used up"]
    agents = " ".join(_line([_agent(team, 1, is_frozen=False, hearts=0)], color=color) for team in teams)
    people = [f"{agents} agent", f"{FULL_ARROWS[1]} with heart", f"{FROZEN_MARK} frozen"]
    return ["  ".join(first), "  ".join([*marks, *people, *([f"{OWN_MARK} {own_label}"] if own_label else [])])]


def _cells(state: WorldState, own: int | None) -> list[list[Cell]]:
    rows = [[WALL if wall else FLOOR for wall in row] for row in state.walls.tolist()]
    for y, x, kind, cooldown, stock in state.stations.tolist():
        rows[y][x] = _station(STATIONS[kind], station_state(cooldown, stock))
    people = zip(state.agents.tolist(), state.inventories[:, ITEMS.index("heart")].tolist(), strict=True)
    for number, ((y, x, facing, frozen, team, _), hearts) in enumerate(people):
        cell = _agent(team, facing, is_frozen=frozen > 0, hearts=hearts)
        rows[y][x] = Cell(OWN_MARK + cell.text[1], cell.back, cell.front) if number == own else cell
    return rows


def _station(name: str, state: int) -> Cell:
    text = STATION_LETTERS[name] + STATE_MARKS[state]
    body, item = palette.STATION_COLORS[name], palette.ITEM_COLORS[PRODUCT[name]]
    if state == EXHAUSTED:
        return Cell(text, palette.INK, palette.ASH)
    if state == COOLING:
        return Cell(text, palette.mix(item, palette.SHADOW, 0.5), palette.mix(body, palette.SHADOW, 0.5))
    return Cell(text, item, body)


def _agent(team: int, facing: int, *, is_frozen: bool, hearts: int) -> Cell:
    """The number of the team and the direction that the agent faces."""
    arrow = (FULL_ARROWS if hearts else ARROWS)[facing]
    text = str(team + 1) + (FROZEN_MARK if is_frozen else arrow)
    body = palette.TEAM_COLORS[team % len(palette.TEAM_COLORS)]
    return Cell(text, palette.INK, palette.ICE) if is_frozen else Cell(text, palette.WHITE, body)


def _window(length: int, center: int, room: int | None) -> tuple[int, int]:
    """First and last cell of a window that contains the centre."""
    if room is None or length <= room:
        return 0, length
    room = max(room, 1)
    start = min(max(center - room // 2, 0), length - room)
    return start, start + room


def _line(cells: Iterable[Cell], *, color: bool) -> str:
    """One line of text; neighbouring cells of one colour share a colour code, which keeps frames small."""
    if not color:
        return "".join(cell.text for cell in cells).rstrip()
    parts = [
        f"\x1b[38;2;{_code(front)};48;2;{_code(back)}m{''.join(cell.text for cell in group)}"
        for (front, back), group in groupby(cells, key=lambda cell: (cell.front, cell.back))
    ]
    return "".join(parts) + RESET


def _code(color: Color) -> str:
    return ";".join(map(str, color))
