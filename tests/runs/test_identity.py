from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.core.errors import UsageError
from palaestra.runs import identity
from palaestra.runs.identity import RunNames, check_name, created_at, is_run_id, new_run_id, nickname


def test_an_id_reports_when_it_was_made(monkeypatch):
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


@pytest.fixture
def names(tmp_path) -> RunNames:
    return RunNames(tmp_path)


def run(names: RunNames) -> str:
    run_id = new_run_id()
    (names.root / run_id).mkdir()
    return run_id


def test_a_claimed_name_leads_to_its_run(names):
    run_id = run(names)
    assert names.claim("a", run_id)
    assert names.find("a") == run_id
    assert (names.links / "a").resolve() == names.root / run_id
    assert names.name_of(run_id) == "a"


def test_a_name_is_given_once(names):
    first, second = run(names), run(names)
    assert names.claim("a", first)
    assert not names.claim("a", second)
    assert names.find("a") == first


def test_of_many_claims_at_once_one_wins(names):
    ids = [run(names) for _ in range(20)]
    with ThreadPoolExecutor(8) as pool:
        wins = list(pool.map(lambda run_id: names.claim("a", run_id), ids))
    assert wins.count(True) == 1
    assert names.find("a") == ids[wins.index(True)]


def test_the_name_of_a_run_that_was_deleted_by_hand_is_free_again(names):
    gone, fresh = run(names), run(names)
    names.claim("a", gone)
    (names.root / gone).rmdir()
    assert names.find("a") is None
    assert names.claim("a", fresh)
    assert names.find("a") == fresh


def test_only_the_owner_can_release_a_name(names):
    first, second = run(names), run(names)
    names.claim("a", first)
    names.release("a", second)
    assert names.find("a") == first
    names.release("a", first)
    assert names.all() == []


@pytest.mark.parametrize("target", ["/etc", "../..", "../../x/01J8Z3K4M5N6P7Q8R9S0T1V2W3"])
def test_a_link_that_leads_out_of_the_store_is_not_followed(names, target):
    names.links.mkdir()
    (names.links / "a").symlink_to(target)
    assert names.find("a") is None


@pytest.mark.parametrize("name", ["", "x/../../y", "a\x00b", "a" * 5000])
def test_impossible_names_are_simply_not_there(names, name):
    assert names.find(name) is None


def test_the_linked_runs_are_those_that_a_name_points_to(names):
    assert names.linked() == set()
    run_id, _nameless = run(names), run(names)
    names.claim("one", run_id)
    assert names.linked() == {run_id}
