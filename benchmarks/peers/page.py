"""The page that the comparison writes."""

from __future__ import annotations

from typing import Any

from peers.catalogue import OURS, PEERS
from peers.settings import SETTINGS, SOLVED_EPISODES, SOLVED_RETURN
from peers.summary import TARGETS, Block, Row, Target, ratio, rows_of

HEAD = """# Beside other trainers

Written by `make bench-peers` (`python benchmarks/peers.py`) on {cpu}, {cores} cores, Python {python}.

Every measurement is a process of its own. Within a setting the peers take turns, round after round; figures are medians
over rounds, ratios are taken within a round before their median. Processes are held to as many cores as a setting says.
**Palaestra is `palaestra train` as a user types it**, with metrics.db, TensorBoard, console and checkpoints; the others
log nothing and save nothing unless said otherwise. All have the same numbers of PPO and, where a setting names no other
network, separate ones of 64-64 tanh.

* *steps/s*: environment steps per second of the whole loop after warming up, for as long as said or to the end.
* *start*: seconds from the start of the process to the end of the first update, imports and compiling included.
* *memory*: the peak over all its processes. *cores*: processor time over wall time, start to end.
* *solved*: the mean of {episodes} training episodes in a row is at least {score:.0f}; seconds with starting.

![Steps per second of every peer](peers.svg)
"""

TARGET_HEAD = """
## What was promised

| ours | against | setting | wanted | found | |
|---|---|---|---|---|---|
"""


def page(blocks: list[Block], machine: dict[str, Any], notes: str = "") -> str:
    """`notes`: what a person has to say, before anybody has read the promises without it"""
    head = HEAD.format(**machine, episodes=SOLVED_EPISODES, score=SOLVED_RETURN)
    sections = "".join(section(block) for block in blocks) or "\nNothing was measured yet.\n"
    return head + targets(blocks) + (f"\n{notes}" if notes else "") + sections


def targets(blocks: list[Block]) -> str:
    """Every promise, with what this run has to say to it; one that was not measured stands there as such."""
    by_name = {block.setting: block for block in blocks}
    return TARGET_HEAD + "".join(target_line(target, by_name.get(target.setting)) for target in TARGETS)


def target_line(target: Target, block: Block | None) -> str:
    found = ratio(block, target) if block else None
    verdict = "not measured" if found is None else "reached" if found >= target.ratio else "**missed**"
    setting = f"{target.setting}, time to solve" if target.quantity == "solved_seconds" else target.setting
    shown = "-" if found is None else f"{found:.2f}"
    names = f"{title(target.side)} | {title(target.against)}"
    return f"| {names} | {setting} | {target.ratio:g} | {shown} | {verdict} |\n"


def section(block: Block) -> str:
    setting = SETTINGS[block.setting]
    rows = rows_of(block)
    how_long = "to the end" if setting.until_solved else f"{block.seconds:g} s each at most"
    told = f"\n{len(block.rounds)} rounds, {how_long}, {block.date}, load before {block.load_before:.2f}.\n\n"
    table = solve_table(rows) if setting.until_solved else speed_table(rows)
    return f"\n## {setting.name}\n\n{setting.title}.{told}{table}{remarks(block, rows)}"


def speed_table(rows: list[Row]) -> str:
    return table_head("steps/s", "slowest to fastest", "ours over it", "start, s", "memory, MB", "cores") + "".join(
        f"| {title(row.peer)} | **{number(row.steps_per_second)}** | {number(row.slowest)} to {number(row.fastest)} "
        f"| {over(row)} | {number(row.start_seconds, 2)} | {number(row.memory_mb)} | {number(row.cores_used, 2)} |\n"
        for row in rows
    )


def solve_table(rows: list[Row]) -> str:
    ours = next((row.solved_seconds for row in rows if row.peer == OURS), None)
    columns = ("solved after, s", "after steps", "solved", "theirs over ours", "start, s", "memory, MB")
    return table_head(*columns) + "".join(
        f"| {title(row.peer)} | **{number(row.solved_seconds, 1)}** | {number(row.solved_steps)} | {row.solved} "
        f"| {times(row, ours)} | {number(row.start_seconds, 2)} | {number(row.memory_mb)} |\n"
        for row in rows
    )


def table_head(*columns: str) -> str:
    return f"| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}\n"


def remarks(block: Block, rows: list[Row]) -> str:
    lines = [f"* {title(row.peer)}: {PEERS[row.peer].remark}{versions(row)}." for row in rows]
    lines += [f"* {title(row.peer)} failed at least once: {row.failed}" for row in rows if row.failed]
    lines += [f"* {title(name)} did not take part: {reason}" for name, reason in block.absent.items()]
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def versions(row: Row) -> str:
    shown = [f"{name} {text}" for name, text in row.versions.items() if name != "python"]
    return f" ({', '.join(shown)})" if shown else ""


def title(peer: str) -> str:
    return PEERS[peer].title


def number(value: float | None, places: int = 0) -> str:
    return "-" if value is None else f"{value:,.{places}f}"


def over(row: Row) -> str:
    return "" if row.peer == OURS else number(row.ours_over, 2)


def times(row: Row, ours: float | None) -> str:
    if row.peer == OURS or ours is None or row.solved_seconds is None:
        return ""
    return number(row.solved_seconds / ours, 1)
