"""The page that the comparison writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from peers.catalogue import OURS, PEERS, Target
from peers.off_policy_settings import OFF_POLICY_CATALOGUE, OFF_POLICY_SETTINGS, OFF_POLICY_TARGETS
from peers.settings import SETTINGS, SOLVED_EPISODES, SOLVED_RETURN
from peers.summary import TARGETS, Block, Row, ratio, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from peers.catalogue import Peer
    from peers.off_policy_settings import OffPolicySetting
    from peers.settings import Setting

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

OFF_POLICY_HEAD = """# DQN, PQN, SAC and TD3 beside other trainers

Written by `make bench-off-policy` (`python benchmarks/peers.py --off-policy`) on {cpu}, {cores} cores, Python {python}.

Every measurement is a process of its own. Within a setting the peers take turns, round after round; figures are medians
over rounds, ratios are taken within a round before their median. Processes are held to one core.
**Palaestra is `palaestra train` as a user types it**, with metrics.db, TensorBoard, console and checkpoints with the
replay buffer; the others log nothing and save nothing unless said otherwise. All have equal networks, batches, buffers
and numbers of updates a step.

* *steps/s*: environment steps per second of the whole loop, random actions at the start left out, for as long as said.
* *start*: seconds from the start of the process to its first report, imports and compiling included.
* *memory*: the peak over all its processes. *cores*: processor time over wall time, start to end.

![Steps per second of every peer](off-policy-speed.svg)
"""


@dataclass(frozen=True)
class Comparison:
    name: str  # of its files
    settings: Mapping[str, Setting | OffPolicySetting]
    peers: Mapping[str, Peer]
    targets: tuple[Target, ...]
    head: str

    def title(self, peer: str) -> str:
        return self.peers[peer].title


PPO = Comparison("peers", SETTINGS, PEERS, TARGETS, HEAD)
OFF_POLICY = Comparison(
    "off-policy-speed",
    OFF_POLICY_SETTINGS,
    {peer.name: peer for peer in OFF_POLICY_CATALOGUE},
    OFF_POLICY_TARGETS,
    OFF_POLICY_HEAD,
)

TARGET_HEAD = """
## What was promised

| ours | against | setting | wanted | found | |
|---|---|---|---|---|---|
"""


def page(blocks: list[Block], machine: dict[str, Any], notes: str = "", compared: Comparison = PPO) -> str:
    """`notes`: what a person has to say, before anybody has read the promises without it"""
    head = compared.head.format(**machine, episodes=SOLVED_EPISODES, score=SOLVED_RETURN)
    sections = "".join(section(block, compared) for block in blocks) or "\nNothing was measured yet.\n"
    return head + targets(blocks, compared) + (f"\n{notes}" if notes else "") + sections


def targets(blocks: list[Block], compared: Comparison) -> str:
    """Every promise, with what this run has to say to it; one that was not measured stands there as such."""
    by_name = {block.setting: block for block in blocks}
    lines = [target_line(target, by_name.get(target.setting), compared) for target in compared.targets]
    return TARGET_HEAD + "".join(lines)


def target_line(target: Target, block: Block | None, compared: Comparison) -> str:
    found = ratio(block, target) if block else None
    result = "not measured" if found is None else "reached" if found >= target.ratio else "**missed**"
    setting = f"{target.setting}, time to solve" if target.quantity == "solved_seconds" else target.setting
    shown = "-" if found is None else f"{found:.2f}"
    names = f"{compared.title(target.side)} | {compared.title(target.against)}"
    return f"| {names} | {setting} | {target.ratio:g} | {shown} | {result} |\n"


def section(block: Block, compared: Comparison) -> str:
    setting = compared.settings[block.setting]
    rows = rows_of(block)
    how_long = "to the end" if setting.until_solved else f"{block.seconds:g} s each at most"
    told = f"\n{len(block.rounds)} rounds, {how_long}, {block.date}, load before {block.load_before:.2f}.\n\n"
    table = solve_table(rows, compared) if setting.until_solved else speed_table(rows, compared)
    return f"\n## {setting.name}\n\n{setting.title}.{told}{table}{remarks(block, rows, compared)}"


def speed_table(rows: list[Row], compared: Comparison) -> str:
    return table_head("steps/s", "slowest to fastest", "ours over it", "start, s", "memory, MB", "cores") + "".join(
        f"| {compared.title(row.peer)} | **{number(row.steps_per_second)}** "
        f"| {number(row.slowest)} to {number(row.fastest)} "
        f"| {over(row)} | {number(row.start_seconds, 2)} | {number(row.memory_mb)} | {number(row.cores_used, 2)} |\n"
        for row in rows
    )


def solve_table(rows: list[Row], compared: Comparison) -> str:
    ours = next((row.solved_seconds for row in rows if row.peer == OURS), None)
    columns = ("solved after, s", "after steps", "solved", "theirs over ours", "start, s", "memory, MB")
    return table_head(*columns) + "".join(
        f"| {compared.title(row.peer)} | **{number(row.solved_seconds, 1)}** | {number(row.solved_steps)} "
        f"| {row.solved} | {times(row, ours)} | {number(row.start_seconds, 2)} | {number(row.memory_mb)} |\n"
        for row in rows
    )


def table_head(*columns: str) -> str:
    return f"| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}\n"


def remarks(block: Block, rows: list[Row], compared: Comparison) -> str:
    lines = [f"* {compared.title(row.peer)}: {compared.peers[row.peer].remark}{versions(row)}." for row in rows]
    lines += [f"* {compared.title(row.peer)} failed at least once: {row.failed}" for row in rows if row.failed]
    lines += [f"* {compared.title(name)} did not take part: {reason}" for name, reason in block.absent.items()]
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def versions(row: Row) -> str:
    shown = [f"{name} {text}" for name, text in row.versions.items() if name != "python"]
    return f" ({', '.join(shown)})" if shown else ""


def number(value: float | None, places: int = 0) -> str:
    return "-" if value is None else f"{value:,.{places}f}"


def over(row: Row) -> str:
    return "" if row.peer == OURS else number(row.ours_over, 2)


def times(row: Row, ours: float | None) -> str:
    if row.peer == OURS or ours is None or row.solved_seconds is None:
        return ""
    return number(row.solved_seconds / ours, 1)
