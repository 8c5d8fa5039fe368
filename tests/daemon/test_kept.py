import os
import select
import sys

import pytest

from palaestra.core.run import RunRequest
from palaestra.daemon.keeper import Charge
from palaestra.daemon.keeping import start_keeper
from palaestra.daemon.kept import Kept
from palaestra.daemon.tree import find_process
from palaestra.runs.store import RunStore

SLEEP = "import time; time.sleep(1000)"


@pytest.fixture
def keep(home):
    def start(code):
        directory = RunStore(home).create(RunRequest("script", "", {}), {})
        files = (directory.keeper_file, directory.status_file, directory.output_file(), directory.earlier_output_file())
        argv = [sys.executable, "-S", "-c", code]
        paths = [str(path) for path in files]
        pid = start_keeper(directory, Charge(directory.id, 1, argv, {}, *paths, 1 << 20, 5.0, 0, [], -1))
        return directory, pid

    return start


def is_zombie(pid):
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_for_end(kept):
    poll = select.poll()
    poll.register(kept.handle, select.POLLIN)
    assert poll.poll(30_000), "its handle never told of the end"


def test_its_handle_tells_of_the_end_and_no_zombie_stays(keep):
    directory, pid = keep("pass")
    kept = Kept(directory, 1, pid)
    wait_for_end(kept)
    assert kept.has_ended()
    assert is_zombie(pid)
    kept.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)


def test_one_that_was_found_is_identified_by_its_note(keep, wait_until):
    directory, pid = keep(SLEEP)
    kept = Kept(directory, 1)
    assert (kept.handle, kept.has_ended()) == (None, False)
    wait_until(kept.identify, "its note")
    assert kept.pid == pid
    kept.ask()
    wait_for_end(kept)
    kept.close()


def test_the_note_of_another_attempt_is_not_its_own(keep, wait_until):
    directory, pid = keep("pass")
    Kept(directory, 1, pid)
    wait_until(lambda: is_zombie(pid), "its end")
    assert Kept(directory, 2).note() is None
    assert Kept(directory, 1).note() is not None
    os.waitpid(pid, 0)


def test_without_a_keeper_the_worker_itself_is_watched_and_ended(keep, wait_until):
    directory, pid = keep(SLEEP)
    kept = Kept(directory, 1, pid)
    note = wait_until(lambda: (found := kept.note()) and found.worker and found, "the worker")
    os.kill(pid, 9)
    wait_for_end(kept)
    kept.watch_worker(note.worker)
    assert not kept.has_ended()
    kept.kill()
    wait_for_end(kept)
    assert find_process(note.worker.pid) is None
    kept.close()


def test_a_word_printed_is_a_sound(keep, wait_until):
    directory, pid = keep("import sys; print('a word', flush=True); sys.stdin.read(); import time; time.sleep(1000)")
    kept = Kept(directory, 1, pid)
    wait_until(lambda: directory.output_file().exists() and directory.output_file().read_text(), "its word")
    assert kept.has_made_a_sound()
    assert not kept.has_made_a_sound()
    kept.kill()
    wait_for_end(kept)
    kept.close()


def test_killing_the_tree_takes_the_keeper_too(keep, wait_until):
    directory, pid = keep(SLEEP)
    kept = Kept(directory, 1, pid)
    wait_until(lambda: (found := kept.note()) and found.worker, "the worker")
    assert kept.kill_tree() == 0
    wait_for_end(kept)
    kept.close()
