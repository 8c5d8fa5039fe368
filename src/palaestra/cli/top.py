"""`palaestra top`: the daemon's runs, live."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from palaestra.cli.command import Command
from palaestra.cli.output import clean, is_fancy, note, print_json, print_table
from palaestra.cli.parser import positive
from palaestra.client.calls import connect
from palaestra.client.events import follow_events

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import RenderableType

    from palaestra.cli.parser import Parser
    from palaestra.client.calls import Client

COLUMNS = ("name", "state", "recipe", "steps", "progress", "steps/s", "return", "since")
STYLES = {"running": "green", "stopping": "yellow", "failed": "red", "lost": "red", "queued": "cyan"}
ACTIVE = ("running", "stopping", "queued")
REDRAW_SECONDS = 0.5


class Board:
    """What the table shows: runs by id, and the machine."""

    def __init__(self, listing: dict[str, Any], system: dict[str, Any], limit: int) -> None:
        self._runs = {run["id"]: run for run in listing["runs"]}
        self._system = system
        self._limit = limit

    def take(self, message: dict[str, Any]) -> None:
        """One message of the events socket; those of other types say nothing to a table."""
        if message["type"] == "run":
            self._runs[message["run"]["id"]] = message["run"]
        elif message["type"] == "removed":
            self._runs.pop(message["run"]["id"], None)
        elif message["type"] == "system":
            self._system = {**self._system, **message}

    def rows(self) -> list[dict[str, Any]]:
        """Those at work first, then those that wait, then the newest."""
        newest = sorted(self._runs.values(), key=lambda run: str(run["id"]), reverse=True)
        return sorted(newest, key=_rank)[: self._limit]

    def headline(self) -> str:
        used, slots, memory = self._system["slots"]["used"], self._system["slots"], self._system["memory"]
        return (
            f"{self._system['running']} running, {self._system['queued']} queued · "
            f"cores {used['cpus']}/{slots['cpus']} · GPUs {used['gpus']}/{slots['gpus']} · "
            f"memory {memory['available'] / 2**30:.1f} of {memory['total'] / 2**30:.1f} GiB free"
        )


def add_arguments(parser: Parser) -> None:
    parser.add_flag("--once", action="store_true", help="print the table once")
    parser.add_flag("--limit", type=positive, default=30, metavar="N", help="number of runs shown; default: 30")
    parser.add_flag("--json", action="store_true", help="print runs and machine once as one JSON object")


def run(arguments: Namespace) -> int:
    with connect() as client:
        listing = client.listing(limit=max(arguments.limit, 100))
        system = client.system()
        board = Board(listing, system, arguments.limit)
        if arguments.json:
            print_json({"system": system, "runs": board.rows()})
            return 0
        if arguments.once or not is_fancy():
            note(board.headline())
            print_table(COLUMNS, [cells(row) for row in board.rows()], empty="No runs yet: palaestra submit cartpole")
            return 0
        try:
            _show_live(client, board, listing)
        except KeyboardInterrupt:
            return 0
    note("The daemon has stopped.")
    return 0


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    rate, reached = row["summary"].get("steps_per_second"), row["summary"].get("episodic_return")
    progress = "" if row["progress"] is None else f"{100 * row['progress']:.0f} %"
    state = row["state"] if row["queue_position"] is None else f"{row['state']} {row['queue_position']}"
    return (
        row["name"],
        state,
        row["recipe"],
        f"{row['agent_step']:,}",
        progress,
        "" if rate is None else f"{rate:,.0f}",
        "" if reached is None else f"{reached:.1f}",
        _since(row),
    )


def draw(board: Board) -> RenderableType:
    table = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for row in board.rows():
        style = STYLES.get(row["state"], "dim")
        texts = [Text(clean(cell)) for cell in cells(row)]  # Text: a name is never read as markup
        texts[COLUMNS.index("state")].stylize(style)
        table.add_row(*texts)
    return Group(Text(board.headline(), style="bold"), table)


def _show_live(client: Client, board: Board, listing: dict[str, Any]) -> None:
    """Runs until the daemon ends or Ctrl-C is pressed."""
    with Live(draw(board), console=Console(), auto_refresh=False, screen=True) as live:
        drawn_at = 0.0
        for message in follow_events(client.connection, listing["sequence"], listing["boot"]):
            board.take(message)
            if time.monotonic() - drawn_at > REDRAW_SECONDS or message["type"] == "run":
                live.update(draw(board), refresh=True)
                drawn_at = time.monotonic()


def _rank(row: dict[str, Any]) -> tuple[int, int]:
    first = ACTIVE.index(row["state"]) if row["state"] in ACTIVE else len(ACTIVE)
    return first, row["queue_position"] or 0


def _since(row: dict[str, Any]) -> str:
    at = row["ended_at"] or row["started_at"] or row["created_at"]
    seconds = max(0, int(time.time() - at))
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


COMMAND = Command(
    name="top",
    summary="show the daemon's runs live: states, speeds, returns",
    examples=("palaestra top", "palaestra top --once", "palaestra top --json"),
    add_arguments=add_arguments,
    run=run,
)
