from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from palaestra.core.metrics_logger import Sample
from palaestra.loggers.status import Figure, RunHeader, Status, StatusTracker, TaskStatus
from palaestra.loggers.status_table import duration, printable_text, status_line, status_table

STATUS = Status(
    header=RunHeader("first", "cartpole", 500_000, Path("runs/01JCW3X7Z9Q8R5T2V4B6N8M0KH")),
    step=51_200,
    steps_per_second=21_345.4,
    episode_count=1234,
    last_return=123.46,
    last_length=98.0,
    phase_shares=(("rollout", 0.6), ("learn", 0.35), ("other", 0.05)),
    figures=(
        Figure("policy loss", -0.0123),
        Figure("value loss", 12.34567),
        Figure("entropy", 0.61),
        Figure("approx KL", 0.00312),
        Figure("learning rate", 2.25e-4),
    ),
    line_figures=(Figure("kl", 0.00312),),
    evaluation=(25_600, 480.0),
    checkpoint=(50, 25_600),
)

PICTURE = """\
╭───────────────────────────── first · cartpole ─────────────────────────────╮
│ 51,200 / 500,000 ━━━━━───────────────────────────────────────────────  10% │
│ steps/s       21,345                 ETA           0:21                    │
│ return        123.5                  policy loss   -0.0123                 │
│ length        98.0                   value loss    12.35                   │
│ episodes      1,234                  entropy       0.61                    │
│ evaluation    480.0 at 25.6k         approx KL     0.00312                 │
│ checkpoint    50 at 25.6k            learning rate 0.000225                │
│ time          rollout 60% learn 35% other 5%                               │
╰───────────────────── runs/01JCW3X7Z9Q8R5T2V4B6N8M0KH ──────────────────────╯
"""


def drawn(status: Status, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width, force_terminal=True, color_system=None, highlight=False)
    console.print(status_table(status))
    return console.file.getvalue()


def test_the_table_at_80_columns():
    assert drawn(STATUS) == PICTURE


TASKS = (TaskStatus("easy", 0.125, 480.25), TaskStatus("hard.walls-3", 0.875, None))
TASK_ROWS = """\
│ time          rollout 60% learn 35% other 5%                               │
│ tasks         1,234                  tasks/s       56.8                    │
│   hard.walls-3             ━━━━━━━━━━━━━━━━━━──  88% return -              │
│   easy                     ━━──────────────────  12% return 480.2          │
"""


def test_a_curriculum_adds_tasks_and_a_row_for_each_the_most_drawn_first():
    frame = drawn(replace(STATUS, tasks_completed=1234, tasks_per_second=56.78, tasks=TASKS))
    assert TASK_ROWS in frame
    assert {cell_len(line) for line in frame.splitlines()} == {78}


def test_many_tasks_with_long_names_and_huge_returns_stay_within_the_frame():
    tasks = tuple(TaskStatus("n" * 40 + str(number), number / 66, -1e30) for number in range(12))
    lines = drawn(replace(STATUS, tasks_completed=10**15, tasks_per_second=1e12, tasks=tasks)).splitlines()
    assert {cell_len(line) for line in lines} == {78}
    assert len(lines) == 10 + 1 + 8 + 1
    assert "and 4 more" in lines[-2]


def test_the_plain_line_counts_tasks_when_there_are_some():
    line = status_line(replace(STATUS, tasks_completed=1234, tasks_per_second=56.78, tasks=TASKS))
    assert "| tasks 1,234 (56.8/s) |" in line


def test_a_run_that_has_only_begun_shows_dashes_not_zeros():
    lines = drawn(StatusTracker(STATUS.header).status()).splitlines()
    assert lines[2].split() == ["│", "steps/s", "-", "ETA", "-", "│"]
    assert lines[3].split() == ["│", "return", "-", "policy", "loss", "-", "│"]
    assert lines[8].split() == ["│", "time", "-", "│"]


@pytest.mark.parametrize(
    "status",
    [
        replace(STATUS, header=RunHeader("n" * 90, "r" * 90, 10**15, Path("/very" * 50))),
        replace(STATUS, header=RunHeader("日本語" * 20, "[red]x[/]", 1, Path("/tmp/[bold]"))),
        replace(STATUS, header=RunHeader("\x1b[31mred\x1b[0m\n", "x", 500_000, Path("/tmp"))),
        replace(
            STATUS,
            last_return=-1.23456e20,
            figures=(Figure("value loss", float("nan")), Figure("x", 1e-300), *STATUS.figures[2:]),
            evaluation=(10**12, 1e18),
        ),
        replace(STATUS, step=10**9, steps_per_second=0.0),
    ],
)
def test_no_value_breaks_the_frame(status):
    lines = drawn(status).splitlines()
    assert len(lines) == 10
    assert {cell_len(line) for line in lines} == {78}
    assert [line[0] for line in lines] == ["╭", *"│" * 8, "╰"]
    assert "\x1b" not in "".join(lines)


def test_the_rows_of_dqn_say_how_full_the_replay_buffer_is():
    board = StatusTracker(replace(STATUS.header, algorithm="dqn"))
    board.take(Sample(9, {"replay/transitions": 123_456.0, "losses/q_values": 17.5, "charts/epsilon": 0.25}))
    lines = drawn(board.status()).splitlines()
    assert [line[39:75].strip() for line in lines[3:8]] == [
        "TD loss       -",
        "Q value       17.5",
        "epsilon       0.25",
        "replay buffer 123,456",
        "learning rate -",
    ]
    assert "| q 17.5 | epsilon 0.25" in status_line(board.status())


def test_brackets_in_a_name_are_shown_as_they_are():
    assert "[red]x[/]" in drawn(replace(STATUS, header=RunHeader("a", "[red]x[/]", 1, Path("d"))))


def test_the_plain_line_is_one_line():
    assert status_line(STATUS) == (
        "step 51,200/500,000 (10%) | 21,345 steps/s | ETA 0:21 | return 123.5 | length 98.0 | kl 0.00312 | eval 480.0"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0:00"), (59.6, "1:00"), (725, "12:05"), (11_220, "3:07:00"), (183_600, "2d 03h")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_escape_sequences_and_line_breaks_do_not_act():
    assert printable_text("a\x1b[2J\nb\u202e") == "a?[2J?b?"
