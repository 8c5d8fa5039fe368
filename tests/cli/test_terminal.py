"""With a real pseudo-terminal; what the commands do with it is tested beside them."""

import fcntl
import signal
import struct
import sys
import termios

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.cli.terminal import GONE, read_keys, require_terminal
from palaestra.core.errors import UsageError

SHOWS_KEYS = """
import sys
from palaestra.cli.terminal import Terminal
with Terminal() as terminal:
    seen = []
    while seen[-1:] != ["q"]:
        columns, lines = terminal.size()
        terminal.show("\\n".join([f"{columns}x{lines} {' '.join(seen)} end", *["line"] * 200]))
        key = terminal.key(None)
        if key == "e":
            raise RuntimeError("on purpose")
        if key != "redraw":
            seen.append(key)
print("left with", terminal.key(0.0))
"""


@pytest.fixture
def shows_keys(terminal_of, tmp_path):
    script = tmp_path / "shows_keys.py"
    script.write_text(SHOWS_KEYS)
    with terminal_of(program=[sys.executable, str(script)], cwd=tmp_path, lines=12, columns=60) as terminal:
        terminal.wait_for("60x12  end")
        yield terminal


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"a", ["a"]),
        (b"\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        (b"\x1bOA", ["up"]),
        (b"\x1b[H\x1b[F", ["home", "end"]),
        (b"\x1b[1;5C", ["right"]),
        (b"\x1b[3~x", ["x"]),
        (b" \t\r.", ["space", "tab", "enter", "."]),
        (b"\x1b", ["escape"]),
        (b"\x1bq", ["escape", "q"]),
        ("äq".encode(), ["ä", "q"]),
        (b"\xff\x01q", ["q"]),
        (b"\x1b[", []),
        (b"", [GONE]),
    ],
)
def test_keys_have_names(data, keys):
    assert read_keys(data) == keys


@given(st.binary(min_size=1, max_size=30))
def test_whatever_a_terminal_sends_is_read_to_its_end(data):
    assert all(isinstance(key, str) and key for key in read_keys(data))


def test_without_a_terminal_it_learns_what_is_missing():
    with pytest.raises(UsageError, match="'palaestra x' needs a terminal"):
        require_terminal("palaestra x", "")


def test_keys_arrive_one_by_one_without_enter_and_without_echo(shows_keys):
    assert not shows_keys.is_as_before()
    shows_keys.press("ab\x1b[A")
    assert shows_keys.wait_for("60x12 a b up end")


def test_a_screen_has_no_more_lines_than_the_terminal(shows_keys):
    shows_keys.press("a")
    shows_keys.wait_for("60x12 a end")
    shows_keys.press("b")
    shows_keys.wait_until(lambda: "60x12 a b end" in shows_keys.text and shows_keys.text.endswith("\x1b[J"), "a frame")
    assert shows_keys.text.partition("60x12 a b end")[2].count("line") == 11


def test_afterwards_everything_is_as_before(shows_keys):
    shows_keys.press("q")
    shows_keys.wait_until(lambda: "left with None" in shows_keys.text, "the end")
    assert "\x1b[?1049l" in shows_keys.text
    assert "\x1b[?25h" in shows_keys.text
    assert shows_keys.wait_for_end() == 0
    assert shows_keys.is_as_before()


def test_also_after_an_error(shows_keys):
    shows_keys.press("e")
    shows_keys.wait_for("RuntimeError: on purpose")
    assert shows_keys.wait_for_end() == 1
    assert shows_keys.is_as_before()


def test_also_after_control_c(shows_keys):
    shows_keys.press("\x03")
    shows_keys.wait_for("KeyboardInterrupt")
    shows_keys.wait_for_end()
    assert shows_keys.is_as_before()


def test_also_after_a_signal_to_end(shows_keys):
    shows_keys.process.send_signal(signal.SIGTERM)
    assert shows_keys.wait_for_end() == 143
    assert shows_keys.is_as_before()


def test_a_window_of_another_size_is_drawn_anew(shows_keys):
    fcntl.ioctl(shows_keys.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 70, 0, 0))
    shows_keys.process.send_signal(signal.SIGWINCH)  # the kernel tells only the foreground group of a shell
    assert shows_keys.wait_for("70x20  end")


def test_stopped_by_control_z_the_shell_has_its_terminal_and_going_on_the_screen_comes_back(terminal_of, tmp_path):
    script = tmp_path / "shows_keys.py"
    script.write_text(SHOWS_KEYS)
    lines = ["set -m", f"{sys.executable} {script}", "stty -a | tr ';' ' '; echo THE-SHELL", "fg", "echo ended $?"]
    with terminal_of(
        program=["bash", "--norc", "-c", "\n".join(lines)], cwd=tmp_path, columns=60, lines=12
    ) as terminal:
        terminal.wait_for("60x12  end")
        terminal.press("a")
        terminal.wait_for("60x12 a end")
        terminal.press("\x1a")
        terminal.wait_until(lambda: "\x1b[?1049l" in terminal.text, "giving back the shell's screen")
        modes = terminal.wait_for(r"(?s)(.*)THE-SHELL").group(1).split()
        assert "icanon" in modes
        assert "echo" in modes
        terminal.wait_for("60x12 a end")
        terminal.press("bq")
        terminal.wait_for("ended 0")
        terminal.wait_for_end()
        assert terminal.is_as_before()


def test_control_d_is_no_end_while_single_keys_are_read(shows_keys):
    shows_keys.press("\x04a")
    assert shows_keys.wait_for("60x12 a end")


def test_signals_in_the_middle_of_a_write_do_no_harm(terminal_of, tmp_path):
    """Nobody reads, so that the program is caught writing; then it is told to stop, and to end.

    The kernel stops no leader of a session, but its handler runs and writes.
    """
    script = tmp_path / "writes.py"
    script.write_text(
        "from palaestra.cli.terminal import Terminal\n"
        "with Terminal() as terminal:\n"
        "    while True:\n"
        "        terminal.show('x' * 200_000)\n"
    )
    with terminal_of([sys.executable, "-W", "error", str(script)], tmp_path) as terminal:
        terminal.wait_for("xxx")
        terminal.wait_until_blocked()
        terminal.text = ""
        terminal.process.send_signal(signal.SIGTSTP)
        terminal.wait_until_blocked()
        terminal.wait_until(lambda: "\x1b[?1049l" in terminal.text, "the handler's writing")
        terminal.text = ""
        terminal.wait_until(lambda: terminal.text.count("\x1b[H") > 3, "more frames")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait_for_end() == 143
        assert "Traceback" not in terminal.text
        assert terminal.is_as_before()
