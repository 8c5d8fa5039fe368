from argparse import Namespace

import pytest

from palaestra.apps.matmul.discovering import discover, read_words
from palaestra.core.errors import UsageError
from palaestra.runs.store import RunStore


def asked(*words):
    return discover(Namespace(words=list(words), quiet=True, json=True))


def test_the_answer_names_run_rank_and_place(workplace):
    data = asked("2x2x2", "seconds=5", "run=first").data
    assert (data["name"], data["rank"], data["known"], data["comparison"]) == ("first", 7, 7, "matches")
    assert data["is_new_here"]


def test_another_seed_finds_the_same_scheme_again_and_knows_it(workplace):
    first, second = asked("2x2x2", "seed=1"), asked("2x2x2", "seed=5")
    assert first.data["fingerprint"] == second.data["fingerprint"]
    assert not second.data["is_new_here"]


def test_the_same_name_with_other_settings_is_refused(workplace):
    asked("2x2x2", "run=first")
    with pytest.raises(UsageError, match="other settings: seed"):
        asked("2x2x2", "run=first", "seed=2")
    assert len(RunStore().list()) == 1


def test_whole_numbers_are_found_by_lifting(workplace):
    data = asked("2x2x3", "field=z", "seconds=10").data
    assert (data["rank"], data["comparison"]) == (11, "matches")
    assert data["field"] in {"zt", "z"}


@pytest.mark.parametrize(
    "words", [[], ["2x2x2", "3x3x3"], ["2x2x2", "run="], ["2x2x2", "format=3x3x3"], ["2x2x2", "sed=1"]]
)
def test_words_that_make_no_sense_leave_no_run(words, workplace):
    with pytest.raises(UsageError):
        asked(*words)
    assert RunStore().list() == []


def test_words_are_read_in_any_order():
    config, name = read_words(["seed=3", "2x3x4", "run=007"])
    assert (config.format, config.seed, name) == ("2x3x4", 3, "007")
