from __future__ import annotations

from pathlib import Path

import pytest

from palaestra.core.errors import NotFound
from palaestra.core.run import RunRecord, RunState
from palaestra.runs.selectors import select

ROOT = Path("/nowhere/runs")
IDS = ["01J8Z3K4M5N6P7Q8R9S0T1V2W3", "01J8Z3K4M5AAAAAAAAAAAAAAAA", "01H00000000000000000000000"]
NAMES = ["walker", "cart", "01J8"]  # the last one is also the beginning of two ids
RECORDS = [
    RunRecord(run_id, name, "native", "r", RunState.FINISHED, 0.0) for run_id, name in zip(IDS, NAMES, strict=True)
]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("latest", IDS[0]),
        (IDS[1], IDS[1]),
        (IDS[1].lower(), IDS[1]),
        ("cart", IDS[1]),
        ("01H", IDS[2]),
        ("01h", IDS[2]),
        ("01J8Z3K4M5N", IDS[0]),
        ("01J8", IDS[2]),
    ],
)
def test_what_is_typed_leads_to_the_run_that_is_meant(selector, expected):
    assert select(selector, RECORDS, ROOT).path == ROOT / expected


def test_an_ambiguous_beginning_lists_the_candidates():
    with pytest.raises(NotFound, match="any of 2 runs") as caught:
        select("01J8Z", RECORDS, ROOT)
    assert IDS[0] in caught.value.message
    assert "cart" in caught.value.message
    assert IDS[2] not in caught.value.message
    assert caught.value.exit_code == 3


def test_a_mistyped_name_is_answered_with_the_nearest():
    with pytest.raises(NotFound, match=r"No run is called 'wlaker'.*Did you mean 'walker'"):
        select("wlaker", RECORDS, ROOT)


def test_nothing_near_lists_the_newest_and_an_empty_store_says_so():
    with pytest.raises(NotFound, match="Newest: walker, cart"):
        select("qqqqq", RECORDS, ROOT)
    with pytest.raises(NotFound, match="no runs"):
        select("x", [], ROOT)
    with pytest.raises(NotFound, match="palaestra train"):
        select("latest", [], ROOT)


def test_an_empty_word_means_nothing():
    with pytest.raises(NotFound):
        select("", RECORDS[:1], ROOT)


def test_a_path_to_a_run_directory_is_taken_also_through_its_link(store, directory, monkeypatch):
    assert select(str(directory.path), [], ROOT) == directory
    assert select(f"{directory.path}/", [], ROOT) == directory
    assert select(str(store.root / "by-name" / "a"), [], ROOT) == directory
    assert select(str(store.root / "a"), [], ROOT) == directory
    monkeypatch.chdir(directory.path)
    assert select(".", [], ROOT) == directory


@pytest.mark.parametrize(
    "selector", ["/etc", "./", "a/b", "/nowhere/01J8Z3K4M5N6P7Q8R9S0T1V2W3", "a\x00/b", "~nobody-here/x"]
)
def test_a_path_to_anything_else_is_not_found(selector):
    with pytest.raises(NotFound):
        select(selector, [], ROOT)
