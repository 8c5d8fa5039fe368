from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from palaestra.runs.identity import new_run_id
from palaestra.runs.names import RunNames


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
