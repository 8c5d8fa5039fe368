from __future__ import annotations

import subprocess
import sys
from argparse import Namespace

import pytest

from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.discover import discover, find_or_create_run, parse_words, run_method
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
    config, name = parse_words(["seed=3", "2x3x4", "run=007"])
    assert (config.format, config.seed, name) == ("2x3x4", 3, "007")


pytestmark = pytest.mark.usefixtures("one_thread")


def made(said, **settings):
    config = DiscoverConfig(**settings)
    return run_method(lambda: find_or_create_run(config, "first", "palaestra discover"), config, said.append)


def test_flips_walk_and_agents_play(workplace):
    assert made([], seconds=5).unit == "flips"


def test_both_side_by_side_reach_the_target(workplace):
    agent = {"width": 16, "batch": 32, "warmup": 2, "updates": 1, "simulations": 1, "children": 4, "device": "cpu"}
    result = made([], method="auto", seconds=60, agent=agent)
    assert (result.rank, result.unit) == (7, "moves")


def test_where_the_agent_cannot_play_the_walk_goes_alone_and_says_so(workplace):
    said = []
    result = made(said, format="4x4x4", method="auto", seconds=1e-9, round_flips=10)
    assert result.unit == "flips"
    assert "too large for the agent" in said[0]


def test_the_walk_loads_no_torch():
    code = "import sys, palaestra.apps.matmul.discover; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
