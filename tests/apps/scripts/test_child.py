import signal
import sys

import pytest

from palaestra.apps.scripts.child import started
from palaestra.apps.scripts.order import LaunchOrder


@pytest.fixture
def order_of(tmp_path):
    """An order to an interpreter that has nothing installed, so that it starts in a blink."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    python.chmod(0o700)

    def make(text):
        script = tmp_path / "made.py"
        script.write_text(text)
        return LaunchOrder(tmp_path, str(python), str(script), "", (), {}, 0.0, 1, "")

    return make


def all_messages(child):
    found = []
    while child.process.poll() is None:
        found += child.messages(0.1)
    return found + child.drain()


def test_a_scripts_messages_arrive_and_its_code_is_known(order_of):
    with started(order_of("global_step = 7\n")) as child:
        found = all_messages(child)
    assert found[0][0] == "adapted"
    assert found[-1] == ["ended", "finished", "", 7, 0]
    assert child.process.returncode == 0


def test_a_script_that_dies_says_nothing_more(order_of):
    with started(order_of("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")) as child:
        found = all_messages(child)
    assert "ended" not in {message[0] for message in found}
    assert child.process.returncode == -signal.SIGKILL


def test_no_script_outlives_the_block(order_of):
    with started(order_of("import time\nwhile True:\n    time.sleep(1)\n")) as child:
        while not child.messages(0.1):
            assert child.process.poll() is None
    assert child.process.returncode == -signal.SIGKILL


def test_a_traceback_is_told_by_its_last_line(order_of, capfd):
    with started(order_of("raise ValueError('no such thing')\n")) as child:
        found = all_messages(child)
    assert found[-1][:3] == ["ended", "failed", "ValueError: no such thing"]
    assert "Traceback" in capfd.readouterr().err
