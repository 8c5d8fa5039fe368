from __future__ import annotations

import io

import pytest

from palaestra.cli.progress import Progress, RequestProgress
from palaestra.core.episodes import EpisodeResult


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def now(self):
        return self.seconds

    monotonic = now


def episode(reward):
    return EpisodeResult(0, reward, 1, True)


def test_how_far_it_is_is_one_line():
    progress = Progress("first", 3, 50)
    assert progress.text() == "first | eval batch 3 | episodes=0/50"
    for reward in (90.1, 142.6):
        progress.count(episode(reward))
    assert progress.text() == "first | eval batch 3 | episodes=2/50 avg=116.3 min=90.1 max=142.6"


def test_a_terminal_is_written_to_ten_times_a_second_at_most_and_left_clean(monkeypatch):
    terminal, clock = Terminal(), Clock()
    monkeypatch.setattr("sys.stderr", terminal)
    with Progress("first", 1, 9, clock) as progress:
        for reward in range(5):
            progress.count(episode(float(reward)))
            clock.seconds += 0.04
    shown = terminal.getvalue().split("\r\x1b[K")
    assert [part.partition("episodes=")[2].partition("/")[0] for part in shown[1:-1]] == ["1", "4"]
    assert shown[-1] == ""


@pytest.mark.parametrize("name", ["first\x1b[31m", "a\rb"])
def test_a_name_cannot_speak_to_the_terminal(name):
    assert Progress(name, 1, 1).text().isprintable()


def test_a_pipe_gets_nothing(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    with Progress("first", 1, 9) as progress:
        progress.count(episode(1.0))
    assert pipe.getvalue() == ""


class Terminal_of_requests(io.StringIO):
    def isatty(self):
        return True


class Clock_of_requests:
    seconds = 0.0

    def now(self):
        return self.seconds

    monotonic = now


def test_how_far_it_is_is_one_line_of_requests():
    progress = RequestProgress(10, 48)
    assert progress.text() == f"[{'-' * 24}] 0/10 evaluations | 0/48 episodes"
    progress.count([1] * 12)
    progress.finished(failed=False)
    progress.finished(failed=True)
    assert progress.text() == f"[{'#' * 6}{'-' * 18}] 2/10 evaluations | 12/48 episodes | 1 failed"


def test_nothing_to_do_is_no_trouble():
    assert RequestProgress(0, 0).text().endswith("0/0 evaluations | 0/0 episodes")


def test_for_requests_a_terminal_is_written_to_ten_times_a_second_at_most_and_left_clean(monkeypatch):
    terminal, clock = Terminal_of_requests(), Clock_of_requests()
    monkeypatch.setattr("sys.stderr", terminal)
    with RequestProgress(1, 9, clock) as progress:
        for _ in range(5):
            progress.count([1])
            clock.seconds += 0.04
    *shown, last = terminal.getvalue().split("\r\x1b[K")[1:]
    assert [part.partition(" | ")[2] for part in shown] == ["0/9 episodes", "4/9 episodes"]
    assert last == ""
