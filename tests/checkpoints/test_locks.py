import signal
import subprocess
import sys

import pytest

from palaestra.checkpoints.errors import SaveFailed
from palaestra.checkpoints.locks import changing, in_use, unused
from palaestra.contracts.errors import NotFound

HOLD = """
import sys
from pathlib import Path
from palaestra.checkpoints.locks import in_use
with in_use(Path(sys.argv[1]), 1):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "model_0001.safetensors").write_bytes(b"w")
    return tmp_path


def test_one_writer_at_a_time(directory):
    with changing(directory), pytest.raises(SaveFailed, match="locked by another"), changing(directory, 0.01):
        pass
    with changing(directory, 0.01):
        pass


def test_a_directory_that_is_not_there_cannot_be_changed(tmp_path):
    with pytest.raises(SaveFailed, match="No such file"), changing(tmp_path / "gone"):
        pass


def test_what_is_in_use_is_not_unused(directory):
    with in_use(directory, 1), in_use(directory, 1):
        with unused(directory, 1) as is_free:
            assert not is_free
    with unused(directory, 1) as is_free:
        assert is_free


def test_nothing_is_written_for_a_lock(directory):
    with changing(directory), in_use(directory, 1):
        assert [path.name for path in directory.iterdir()] == ["model_0001.safetensors"]


def test_what_is_not_there_cannot_be_used(directory):
    with pytest.raises(NotFound), in_use(directory, 2):
        pass


def test_a_killed_reader_leaves_no_lock(directory):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout.readline() == b"held\n"
        with unused(directory, 1) as is_free:
            assert not is_free
        child.send_signal(signal.SIGKILL)
        child.wait()
    with unused(directory, 1) as is_free:
        assert is_free
