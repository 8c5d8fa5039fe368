import os
import threading

import pytest

from palaestra.envs.child_process import start_child

TALKER = """
import os, sys
print("for whoever reads logs")
os.write(int(sys.argv[1]), " ".join([*sys.argv[2:], os.environ["OMP_NUM_THREADS"]]).encode())
"""


@pytest.fixture
def told(tmp_path, monkeypatch):
    """What a module that only we can import writes into the descriptor that it was given."""
    (tmp_path / "talker_for_tests.py").write_text(TALKER)
    monkeypatch.syspath_prepend(tmp_path)

    def tell():
        reading, writing = os.pipe()
        process = start_child("talker_for_tests", (writing,))
        os.close(writing)
        with os.fdopen(reading) as stream:
            words = stream.read()
        assert process.wait(30) == 0
        return words

    return tell


def test_it_finds_our_modules_and_knows_with_whom_to_end_and_prints_nothing_to_our_output(told, capfd):
    assert told() == f"{os.getpid()} 1"
    assert capfd.readouterr() == ("", "for whoever reads logs\n")


def test_one_that_a_passing_thread_starts_does_not_end_with_that_thread(told):
    words = []
    thread = threading.Thread(target=lambda: words.append(told()))
    thread.start()
    thread.join()
    assert words == ["0 1"]
