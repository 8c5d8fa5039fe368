from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.core.errors import UsageError
from palaestra.runs import identity
from palaestra.runs.identity import check_name, created_at, is_run_id, new_run_id, nickname


def test_an_id_tells_when_it_was_made(monkeypatch):
    monkeypatch.setattr(identity, "_last", 0)
    assert abs(created_at(new_run_id()) - time.time()) < 5


def test_ids_increase_within_one_millisecond():
    ids = [new_run_id() for _ in range(2000)]
    assert ids == sorted(set(ids))
    assert all(map(is_run_id, ids))


@pytest.mark.fault("G14")
def test_ids_increase_when_the_clock_jumps_back_a_day(monkeypatch):
    before = new_run_id()
    yesterday = time.time_ns() - 86_400 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: yesterday)
    assert new_run_id() > before


def test_ids_are_above_the_newest_one_on_disk_which_another_process_made():
    future = "5ZZZZZZZZZ0000000000000000"
    assert new_run_id(after=future) > future
    identity._last = 0


def test_the_very_last_id_does_not_end_the_world(monkeypatch):
    monkeypatch.setattr(identity, "_last", 0)
    assert is_run_id(new_run_id(after="7" + "Z" * 25))


def test_ids_of_many_threads_are_all_different():
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: new_run_id(), range(2000)))
    assert len(set(ids)) == 2000


def test_nicknames_are_names_and_do_not_touch_the_seeded_generator():
    random.seed(3)
    before = random.getstate()
    names = {nickname() for _ in range(200)}
    assert random.getstate() == before
    assert all(check_name(name) == name and len(name.split("-")) == 3 for name in names)
    assert len(names) > 150


@pytest.mark.parametrize("name", ["a", "first run", "walker2d_seed=3", "v1.2+x@home", "größe", "0", "模型", "a" * 80])
def test_ordinary_names_are_taken(name):
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        ("a/b", "'/'"),
        ("..", "starts with"),
        (".hidden", "starts with"),
        ("-rf", "starts with"),
        (" a", "starts with"),
        ("a ", "ends with"),
        ("a\\b", "contains"),
        ("a:best", "':'"),
        ("a\nb", "contains"),
        ("a\x1b[31m", "contains"),
        ("a\x00", "contains"),
        ("a\u202eb", "contains"),
        ("latest", "meaning"),
        ("LATEST", "meaning"),
        ("by-name", "meaning"),
        ("01J8Z3K4M5N6P7Q8R9S0T1V2W3", "looks like the id"),
        ("01j8z3k4m5n6p7q8r9s0t1v2w3", "looks like the id"),
        ("a" * 81, "81 characters"),
        ("模" * 81, "81 characters"),
        ("<script>", "contains"),
    ],
)
def test_other_names_are_refused_with_the_reason_and_what_is_allowed(name, reason):
    with pytest.raises(UsageError, match=reason) as caught:
        check_name(name)
    assert "80 letters" in caught.value.hint


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=100))
def test_whatever_is_taken_is_one_harmless_path_component(tmp_path_factory, name):
    try:
        check_name(name)
    except UsageError:
        return
    base = tmp_path_factory.getbasetemp()
    assert (base / name).parent == base
    assert name.isprintable()
    (base / name).exists()  # an over-long or impossible file name would raise here
