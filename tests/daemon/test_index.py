import random
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from palaestra.core.run import RunRecord, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.entry import Entry
from palaestra.daemon.errors import DamagedIndex, StoreRefused
from palaestra.daemon.index import Index, build_index
from palaestra.daemon.ticket import Ticket

RECORD = RunRecord("01M7H5H1TJ9XS3KR3PDYDV077C", "n", "script", "", RunState.QUEUED, 1.0)
ENTRY = Entry(RECORD, Ticket(3, 1, Resources()), status_stamp="1-2")


def entries(count):
    return [replace(ENTRY, record=replace(RECORD, id=f"01M7H5H1TJ9XS3KR3P{number:08d}")) for number in range(count)]


def test_what_was_put_is_there_after_opening_again(tmp_path):
    path = tmp_path / "daemon.db"
    with closing(Index(path)) as index:
        index.put(ENTRY)
        index.count_up_to(3)
        with_more = replace(ENTRY, gpus=(1,))
        index.put(with_more)
    with closing(Index(path)) as index:
        assert (index.load(), index.sequence()) == ([with_more], 3)
        index.drop(ENTRY.id)
        assert index.load() == []


def test_it_is_closed_to_others(tmp_path):
    with closing(Index(tmp_path / "daemon.db")):
        assert (tmp_path / "daemon.db").stat().st_mode & 0o077 == 0


@pytest.mark.fault("G12")
def test_an_empty_file_is_refused_and_repair_is_named(tmp_path):
    (tmp_path / "daemon.db").write_bytes(b"")
    with pytest.raises(DamagedIndex, match="is empty.*palaestra repair"):
        Index(tmp_path / "daemon.db")


@pytest.mark.fault("G12")
def test_a_damaged_or_cut_file_is_refused_or_read_whole_never_half(tmp_path):
    path = tmp_path / "daemon.db"
    whole = entries(300)
    build_index(path, whole, 300)
    good = path.read_bytes()
    chance = random.Random(7)
    refused, hints = 0, set()
    for _ in range(60):
        place = chance.randrange(len(good))
        broken = bytearray(good[:place] if chance.random() < 0.3 else good)
        if len(broken) == len(good):
            end = min(len(good), place + chance.choice([1, 16, 4096]))
            broken[place:end] = chance.randbytes(end - place)
        path.write_bytes(broken)
        try:
            with closing(Index(path)) as index:
                found = index.load()
                assert len(found) == len(whole)
        except DamagedIndex as error:
            hints.add(error.hint)
            refused += 1
        for beside in tmp_path.glob("daemon.db-*"):
            beside.unlink()
    assert refused > 20
    assert [hint for hint in hints if "palaestra repair" not in hint and "newer Palaestra" not in hint] == []


@pytest.mark.fault("G12")
def test_a_lost_log_costs_the_last_rows_and_no_more(tmp_path):
    path = tmp_path / "daemon.db"
    build_index(path, entries(5), 5)
    before = path.read_bytes()
    with closing(Index(path)) as index:
        index.put(ENTRY)
    path.write_bytes(before)
    for beside in tmp_path.glob("daemon.db-*"):
        beside.unlink()
    with closing(Index(path)) as index:
        assert len(index.load()) == 5


def test_a_row_under_another_id_is_refused(tmp_path):
    path = tmp_path / "daemon.db"
    build_index(path, [ENTRY], 3)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET id = 'other'")
    with closing(Index(path)) as index, pytest.raises(DamagedIndex, match="wrong run"):
        index.load()


@pytest.mark.fault("G11")
def test_a_file_that_cannot_grow_refuses_with_the_reason_and_keeps_what_it_has(tmp_path):
    with closing(Index(tmp_path / "daemon.db")) as index:
        index.limit_pages(1)
        with pytest.raises(StoreRefused, match="full.*Make room"):
            for entry in entries(500):
                index.put(entry)
        index.try_put(ENTRY)  # logged, not raised
        kept = len(index.load())
        index.limit_pages(10_000)
        index.put(ENTRY)
        assert len(index.load()) == kept + 1


def test_many_changes_are_one_and_a_full_disk_leaves_the_old_ones(tmp_path):
    path = tmp_path / "daemon.db"
    with closing(Index(path)) as index:
        with index.together():
            for entry in entries(50):
                index.put(entry)
        index.limit_pages(1)
        with index.together():
            for entry in entries(500):
                index.try_put(entry)
    with closing(Index(path)) as index:
        assert len(index.load()) >= 50


def test_building_replaces_the_old_one_whole(tmp_path):
    path = tmp_path / "daemon.db"
    build_index(path, entries(3), 3)
    build_index(path, entries(1), 9)
    with closing(Index(path)) as index:
        assert (len(index.load()), index.sequence()) == (1, 9)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".tmp")] == []
