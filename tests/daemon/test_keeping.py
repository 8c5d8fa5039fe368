import json
import os
import signal
import sys

import pytest

from palaestra.core.run import RunRequest
from palaestra.daemon.keeper import Charge
from palaestra.daemon.keeping import ask_to_kill, is_kept, read_note, start_keeper, still_there
from palaestra.daemon.tree import RUN_ID_VARIABLE, Process, find_process
from palaestra.runs.store import RunStore


@pytest.fixture
def directory(home):
    return RunStore(home).create(RunRequest("script", "", {}), {})


def charge(directory, code):
    files = (directory.keeper_file, directory.status_file, directory.output_file(), directory.earlier_output_file())
    paths = [str(path) for path in files]
    return Charge(directory.id, 3, [sys.executable, "-S", "-c", code], {"OWN": "yes"}, *paths, 1 << 20, 5.0, 0, [1], -1)


def test_a_keeper_starts_its_charge_and_leaves_a_note_of_the_attempt(directory):
    pid = start_keeper(directory, charge(directory, "import os; print(os.environ['OWN'])"))
    os.waitpid(pid, 0)
    note = read_note(directory)
    assert (note.attempt, note.keeper.pid, note.gpus, note.exit_code) == (3, pid, (1,), 0)
    assert directory.output_file().read_text() == "yes\n"


def test_two_keepers_of_one_run_cannot_be(directory):
    pid = start_keeper(directory, charge(directory, "import time; time.sleep(1000)"))
    keeper = find_process(pid)
    try:
        assert is_kept(directory)
        with pytest.raises(BlockingIOError):
            start_keeper(directory, charge(directory, "pass"))
    finally:
        ask_to_kill(keeper)
        os.waitpid(pid, 0)
    assert not is_kept(directory)
    assert not still_there(keeper)


def test_a_daemon_inside_a_run_does_not_hand_its_own_id_on(directory, monkeypatch):
    monkeypatch.setenv(RUN_ID_VARIABLE, "01M7H5H1TJ9XS3KR3PDYDV0000")
    pid = start_keeper(directory, charge(directory, f"import os; print(os.environ['{RUN_ID_VARIABLE}'])"))
    os.waitpid(pid, 0)
    assert directory.output_file().read_text().strip() == directory.id


def test_the_signals_of_this_process_are_listened_to_as_before(directory):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    os.waitpid(start_keeper(directory, charge(directory, "pass")), 0)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"schema_version": 9}', json.dumps({"schema_version": 1, "attempt": 1})]
)
def test_a_note_that_cannot_be_read_is_none(directory, content):
    directory.keeper_file.write_text(content)
    assert read_note(directory) is None


def test_the_same_pid_of_another_process_is_not_still_there():
    own = find_process(os.getpid())
    assert still_there(own)
    assert not still_there(Process(own.pid, own.parent, own.started_at + 1.0))
