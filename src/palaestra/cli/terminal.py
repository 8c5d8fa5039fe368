"""A terminal for the length of a `with`: keys as they are pressed, a screen of its own, and everything as before after.

Also after an error, Ctrl-C, a TERM signal, and while the job is stopped with Ctrl-Z.
"""

from __future__ import annotations

import math
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from types import FrameType, TracebackType

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"  # second screen, no cursor, no line wrap, empty
LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
TERMINATED = 143

NAMES = {b" ": "space", b"\t": "tab", b"\r": "enter", b"\n": "enter", b"\x7f": "backspace", b"\x1b": "escape"}
SEQUENCES = {b"A": "up", b"B": "down", b"C": "right", b"D": "left", b"H": "home", b"F": "end"}  # after ESC [ or ESC O
GONE = "gone"  # the terminal was closed
REDRAW = "redraw"  # the window has another size, or was another program's for a while
GLANCE = 0.2  # seconds at most until a redraw is noticed


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def require_terminal(command: str, hint: str) -> None:
    if not is_terminal():
        raise UsageError(f"'{command}' needs a terminal; stdin or stdout is a pipe or a file.", hint)


class Terminal:
    def __init__(self) -> None:
        self._input, self._output = sys.stdin.fileno(), sys.stdout.fileno()
        self._pressed: list[str] = []
        self._settings: list[Any] = []
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Terminal:
        sys.stdout.flush()
        self._settings = termios.tcgetattr(self._input)
        handlers = {signal.SIGTSTP: self._on_stop, signal.SIGTERM: self._on_end, signal.SIGWINCH: self._on_resize}
        for number, handler in handlers.items():
            self._handlers[number] = signal.signal(number, handler)
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._give_back()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now"""
        return shutil.get_terminal_size()

    def show(self, text: str) -> None:
        """A whole screen, without flicker: every line overwrites the one before."""
        lines = text.split("\n")[: self.size()[1]]
        self._write(HOME + f"{REST_OF_LINE}\r\n".join(lines) + REST_OF_LINE + REST_OF_SCREEN)

    def key(self, timeout: float | None) -> str | None:
        """The next key by name, or None after `timeout` seconds; None waits as long as it takes."""
        until = time.monotonic() + (math.inf if timeout is None else timeout)
        while not self._pressed:
            left = until - time.monotonic()
            if select.select([self._input], [], [], min(max(left, 0), GLANCE))[0]:
                self._pressed += read_keys(self._read())
            elif left <= 0:
                return None
        return self._pressed.pop(0)

    def _read(self) -> bytes:
        """A terminal that was hung up gives an end of file, or an error on Linux."""
        try:
            return os.read(self._input, 1024)
        except OSError:
            return b""

    def _write(self, text: str) -> None:
        """Past sys.stdout, which may raise when a signal handler writes in the middle of its own write."""
        rest = text.encode()
        while rest:
            rest = rest[os.write(self._output, rest) :]

    def _take(self) -> None:
        tty.setcbreak(self._input, termios.TCSADRAIN)  # Ctrl-C and Ctrl-Z stay signals
        self._write(ENTER)

    def _give_back(self) -> None:
        try:
            self._write(LEAVE)
        finally:
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._settings)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        """Leave the shell its terminal, sleep, and take it again."""
        del frame
        self._give_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._on_stop)
        self._take()
        self._pressed.append(REDRAW)

    def _on_resize(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._pressed.append(REDRAW)

    def _on_end(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        raise SystemExit(TERMINATED)


def read_keys(data: bytes) -> list[str]:
    """Names of the keys in what a terminal sent; `GONE` for an end of file."""
    if not data:
        return [GONE]
    keys = []
    position = 0
    while position < len(data):
        name, length = _read_key(data[position:])
        position += length
        if name:
            keys.append(name)
    return keys


def _read_key(data: bytes) -> tuple[str, int]:
    """Name (empty: a key that has none here) and number of bytes"""
    if data[:2] in {b"\x1b[", b"\x1bO"}:
        length = 2
        while length < len(data) and not 0x40 <= data[length] <= 0x7E:
            length += 1
        return SEQUENCES.get(data[length : length + 1], ""), min(length + 1, len(data))
    first = data[:1]
    if first in NAMES:
        return NAMES[first], 1
    if first < b"\x80":
        return (first.decode() if first.decode().isprintable() else ""), 1
    length = 1
    while length < len(data) and data[length] & 0xC0 == 0x80:  # the rest of a letter in UTF-8
        length += 1
    return data[:length].decode(errors="ignore"), length
