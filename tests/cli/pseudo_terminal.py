"""A real terminal for a test: the program sees a tty, the test presses keys and reads the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 60.0  # seconds until a test gives up; nothing waits that long when all is well
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class PseudoTerminal:
    def __init__(self, process, master, slave):
        self.process = process
        self.master = master
        self.slave = slave
        self.text = ""  # what the program has written since the last match, with its codes

    def press(self, keys):
        os.write(self.master, keys.encode())

    def wait_for(self, pattern):
        """What was written since the last match, up to the text that the regular expression fits."""
        until = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, ESCAPES.sub("", self.text))):
            assert time.monotonic() < until, f"{pattern!r} did not come; there is {self.text[-2000:]!r}"
            self.read(0.1)
        self.text = self.text[_with_codes(self.text, found.end()) :]
        return found

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            self.text += os.read(self.master, 65536).decode(errors="replace")

    def wait_until(self, condition, what):
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, f"{what} did not happen; there is {self.text[-2000:]!r}"
            self.read(0.02)

    def wait_until_blocked(self):
        """The program sleeps in a write, because nobody reads what it has written."""
        until = time.monotonic() + PATIENCE
        asleep = 0
        while asleep < 5:
            assert time.monotonic() < until, "the program does not wait"
            state = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
            asleep = asleep + 1 if state == "S" else 0
            time.sleep(0.02)

    def wait_for_end(self):
        self.wait_until(lambda: self.process.poll() is not None, "the end of the program")
        self.read(0)
        return self.process.returncode

    def is_as_before(self):
        """Echo and whole lines, as a shell wants its terminal."""
        modes = termios.tcgetattr(self.slave)[3]
        return bool(modes & termios.ECHO) and bool(modes & termios.ICANON)


def _with_codes(text, position):
    """Where the position in the text without its codes is in the text with them"""
    for code in ESCAPES.finditer(text):
        if code.start() > position:
            break
        position += len(code.group())
    return position


def _take_the_terminal():
    """Without it Ctrl-C and Ctrl-Z are sent to nobody; and a suite in the background has Ctrl-C ignored."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def pseudo_terminal(program, cwd, lines=40, columns=100, **environment):
    """The program (a list of words) in a terminal of its own, as leader of a session"""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        program,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cwd,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": "", **environment},
        start_new_session=True,
        preexec_fn=_take_the_terminal,  # noqa: PLW1509
    )
    try:
        yield PseudoTerminal(process, master, slave)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)
        os.close(slave)
