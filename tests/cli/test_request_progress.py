import io

from palaestra.cli.request_progress import RequestProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    seconds = 0.0

    def now(self):
        return self.seconds

    monotonic = now


def test_how_far_it_is_is_one_line():
    progress = RequestProgress(10, 48)
    assert progress.text() == f"[{'-' * 24}] 0/10 evaluations | 0/48 episodes"
    progress.count([1] * 12)
    progress.answered(failed=False)
    progress.answered(failed=True)
    assert progress.text() == f"[{'#' * 6}{'-' * 18}] 2/10 evaluations | 12/48 episodes | 1 failed"


def test_nothing_to_do_is_no_trouble():
    assert RequestProgress(0, 0).text().endswith("0/0 evaluations | 0/0 episodes")


def test_a_terminal_is_written_to_ten_times_a_second_at_most_and_left_clean(monkeypatch):
    terminal, clock = Terminal(), Clock()
    monkeypatch.setattr("sys.stderr", terminal)
    with RequestProgress(1, 9, clock) as progress:
        for _ in range(5):
            progress.count([1])
            clock.seconds += 0.04
    *shown, last = terminal.getvalue().split("\r\x1b[K")[1:]
    assert [part.partition(" | ")[2] for part in shown] == ["0/9 episodes", "4/9 episodes"]
    assert last == ""
