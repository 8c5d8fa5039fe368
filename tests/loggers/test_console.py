from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import StringIO
from select import select

import pytest
from rich.console import Console

from palaestra.core.checkpoint import Checkpoint
from palaestra.loggers.console import ConsoleLogger, LineConsole, stderr_console


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def terminal() -> Console:
    return Console(file=Terminal(), width=80, height=25, force_terminal=True, color_system=None, _environ={})


def pipe() -> Console:
    return Console(file=StringIO(), width=80, force_terminal=False, color_system=None, highlight=False)


def checkpoint(epoch: int, step: int) -> Checkpoint:
    return Checkpoint(epoch, step, 1.0, "id", "first", 0.0, policy={}, env={}, interface={})


def test_without_a_terminal_there_is_at_most_one_line_a_second(header, samples, clock):
    console = pipe()
    logger = ConsoleLogger(header, clock, console)
    for sample in samples:
        logger.write(sample)
        clock.seconds += 0.3
    lines = console.file.getvalue().splitlines()
    assert [line.split("/")[0] for line in lines] == ["step 512", "step 2,560", "step 4,608"]
    assert all("\x1b" not in line and "return" in line for line in lines)


def test_the_last_state_is_shown_at_the_end(header, samples, clock):
    console = pipe()
    logger = ConsoleLogger(header, clock, console)
    for sample in samples:
        logger.write(sample)
    logger.close()
    assert console.file.getvalue().splitlines()[-1].startswith("step 5,120/5,120 (100%)")


def test_a_line_that_was_already_shown_is_not_repeated_at_the_end(header, samples, clock):
    console = pipe()
    logger = ConsoleLogger(header, clock, console)
    logger.write(samples[0])
    logger.close()
    assert len(console.file.getvalue().splitlines()) == 1


def test_the_table_is_drawn_at_most_four_times_a_second(header, samples, clock):
    console = terminal()
    logger = ConsoleLogger(header, clock, console)
    for sample in samples * 10:
        logger.write(sample)
        clock.seconds += 0.01  # 100 writes in one second
    assert console.file.getvalue().count("╭") == 4
    logger.close()


def test_the_table_shows_the_run_its_checkpoint_and_its_evaluation(header, samples, clock):
    console = terminal()
    logger = ConsoleLogger(header, clock, console)
    logger.checkpoint_saved(checkpoint(50, 25_600))
    logger.write(samples[-1])
    logger.close()
    frame = console.file.getvalue()
    for text in ("first · cartpole", "5,120 / 5,120", "50 at 25.6k", "rollout 60% learn 30% other 10%"):
        assert text in frame


def test_a_note_stands_above_a_table_that_stays_whole(header, samples, clock):
    console = terminal()
    logger = ConsoleLogger(header, clock, console)
    logger.write(samples[0])
    before = len(console.file.getvalue())
    logger.note("checkpoint [50] saved \x1b[2J")
    after_note = console.file.getvalue()[before:]
    assert "checkpoint [50] saved ?[2J" in after_note
    assert after_note.index("saved") < after_note.index("╭") < after_note.index("╰")
    logger.close()


def test_the_cursor_is_hidden_while_the_table_lives_and_given_back(header, clock):
    console = terminal()
    ConsoleLogger(header, clock, console).close()
    assert console.file.getvalue().index("\x1b[?25l") < console.file.getvalue().index("\x1b[?25h")


def test_standard_output_belongs_to_the_user(header, samples, clock):
    before = sys.stdout
    logger = ConsoleLogger(header, clock, terminal())
    logger.write(samples[0])
    assert sys.stdout is before
    logger.close()


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"TERM": "unknown"}])
def test_a_dumb_terminal_gets_plain_lines(header, samples, clock, variables):
    console = Console(file=Terminal(), width=80, force_terminal=True, _environ=variables)
    logger = ConsoleLogger(header, clock, console)
    logger.write(samples[0])
    logger.close()
    assert console.file.getvalue().startswith("step 512/5,120")
    assert "╭" not in console.file.getvalue()


def test_no_color_leaves_the_table_without_colours(header, samples, clock):
    console = Console(
        file=Terminal(), width=80, force_terminal=True, _environ={"NO_COLOR": "1", "TERM": "xterm-256color"}
    )
    logger = ConsoleLogger(header, clock, console)
    logger.write(samples[4])
    logger.close()
    assert "\x1b[32m" not in console.file.getvalue()
    coloured = Console(file=Terminal(), width=80, force_terminal=True, _environ={"TERM": "xterm-256color"})
    logger = ConsoleLogger(header, clock, coloured)
    logger.write(samples[4])
    logger.close()
    assert "\x1b[32m" in coloured.file.getvalue()


def test_a_forced_colour_does_not_make_a_terminal_of_a_pipe(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", StringIO())
    assert isinstance(stderr_console(), LineConsole)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert stderr_console().is_terminal


def test_progress_goes_to_stderr(header, samples, clock, capsys):
    logger = ConsoleLogger(header, clock)
    logger.write(samples[0])
    logger.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("step 512/5,120")


def test_a_pipe_that_nobody_reads_does_not_hold_up_the_run(header, samples, clock):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while os.write(writing, b"x" * 4096):
            pass
    os.set_blocking(writing, True)
    with os.fdopen(writing, "w", buffering=1) as file:
        logger = ConsoleLogger(header, clock, Console(file=file, width=80, force_terminal=False))
        for sample in samples:
            clock.seconds += 2.0
            logger.write(sample)  # would wait for ever
        logger.note("checkpoint 5 saved")
        with os.fdopen(reading, "rb", buffering=0) as reader:
            while set(reader.read(4096)) == {ord("x")} and select([reader], [], [], 0)[0]:
                pass
            clock.seconds += 2.0
            logger.write(samples[-1])
            assert reader.read(4096).startswith(b"checkpoint 5 saved\nstep 5,120/5,120")
            logger.close()


def test_a_line_goes_to_stderr_as_it_is_when_it_is_reported(monkeypatch):
    lines = LineConsole()
    first, second = StringIO(), StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    lines.say("step 512 [bold]")
    monkeypatch.setattr(sys, "stderr", second)
    lines.say("step 1,024")
    assert (first.getvalue(), second.getvalue()) == ("step 512 [bold]\n", "step 1,024\n")
