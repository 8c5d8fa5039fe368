import os
import random
import sqlite3
from contextlib import closing

import pytest
from daemon_scripts import open_daemon, script

from palaestra.core.run import RunRequest, RunState
from palaestra.daemon.errors import DamagedIndex, StoreInUse
from palaestra.daemon.repair import repair_index
from palaestra.daemon.run_entry import SubmissionOptions
from palaestra.daemon.settings import DaemonDirectory
from palaestra.runs.store import RunStore

SLEEP = "import time; time.sleep(1000)"


@pytest.fixture
def served(home, wait_until):
    """A finished, a running, two waiting runs, one made by somebody else; the daemon is gone."""
    RunStore(home).create(RunRequest("native", "cartpole", {}), {}, "by-hand")
    with open_daemon(home) as daemon:
        done = daemon.submit(script("pass", name="done"))
        daemon.wait(done.id, 30)
        daemon.submit(script(SLEEP, nproc=2, name="running"))
        wait_until(lambda: daemon.get("running").record.pid, "its process")
        daemon.submit(script("pass", name="later"))
        daemon.submit(script("pass", name="urgent"), SubmissionOptions(priority=3))
        return {entry.record.name: entry for entry in daemon.runs()}


@pytest.mark.fault("G12")
@pytest.mark.parametrize("damage", ["zero bytes", "cut", "noise", "gone with its log", "newer"])
def test_after_any_damage_the_index_is_rebuilt_from_the_runs(home, served, damage):
    path = DaemonDirectory(home).index_file
    if damage == "zero bytes":
        path.write_bytes(b"")
    elif damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif damage == "noise":
        path.write_bytes(random.Random(1).randbytes(20_000))
    elif damage == "newer":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA user_version = 99")
    else:
        for beside in path.parent.glob("daemon.db*"):
            beside.unlink()
    if path.exists():
        with pytest.raises(DamagedIndex), open_daemon(home):
            raise AssertionError("served from a damaged index")
    repaired = repair_index(home)
    assert (repaired.runs, repaired.waiting, repaired.unreadable) == (5, 2, ())
    assert (repaired.backup is not None) == (damage != "gone with its log")
    with open_daemon(home) as daemon:
        found = {entry.record.name: entry for entry in daemon.runs()}
        assert {name: entry.id for name, entry in found.items()} == {name: entry.id for name, entry in served.items()}
        assert found["running"].state is RunState.RUNNING
        assert [entry.record.name for entry in daemon.waiting()] == ["urgent", "later"]
        assert found["done"].record.exit_code == 0
        fresh = daemon.submit(script("pass"))
        assert fresh.submission.sequence > served["urgent"].submission.sequence
        daemon.stop("running", grace_seconds=0)
        daemon.wait("running", 30)


def test_an_unreadable_run_is_named_and_the_others_are_stored(home, served):
    RunStore(home).directory(served["done"].id).status_file.write_text("{")
    repaired = repair_index(home)
    assert repaired.unreadable == (served["done"].id,)
    assert repaired.runs == 5


def test_repair_is_refused_while_a_daemon_runs(home, served):
    with open_daemon(home), pytest.raises(StoreInUse, match=str(os.getpid())):
        repair_index(home)
