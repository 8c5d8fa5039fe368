from __future__ import annotations

import subprocess
import sys
from argparse import Namespace

import pytest

from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.discover import discover, find_or_create_run, parse_settings, run_method
from palaestra.core.errors import UsageError
from palaestra.runs.store import RunStore


def arguments(*settings):
    return discover(Namespace(settings=list(settings), quiet=True, json=True))


def test_the_result_has_run_rank_and_comparison(workplace):
    data = arguments("2x2x2", "seconds=5", "run=first").data
    assert (data["name"], data["rank"], data["known"], data["comparison"]) == ("first", 7, 7, "matches")
    assert data["is_new_here"]


def test_an_equivalent_scheme_of_another_seed_is_not_new(workplace):
    first, second = arguments("2x2x2", "seed=1"), arguments("2x2x2", "seed=5")
    assert first.data["fingerprint"] == second.data["fingerprint"]
    assert not second.data["is_new_here"]


def test_the_same_name_with_other_settings_is_refused(workplace):
    arguments("2x2x2", "run=first")
    with pytest.raises(UsageError, match="other settings: seed"):
        arguments("2x2x2", "run=first", "seed=2")
    assert len(RunStore().list()) == 1


def test_integer_schemes_are_found_by_lifting(workplace):
    data = arguments("2x2x3", "field=z", "seconds=10").data
    assert (data["rank"], data["comparison"]) == (11, "matches")
    assert data["field"] in {"zt", "z"}


@pytest.mark.parametrize(
    "settings", [[], ["2x2x2", "3x3x3"], ["2x2x2", "run="], ["2x2x2", "format=3x3x3"], ["2x2x2", "sed=1"]]
)
def test_invalid_arguments_create_no_run(settings, workplace):
    with pytest.raises(UsageError):
        arguments(*settings)
    assert RunStore().list() == []


def test_arguments_are_parsed_in_any_order():
    config, name = parse_settings(["seed=3", "2x3x4", "run=007"])
    assert (config.format, config.seed, name) == ("2x3x4", 3, "007")


pytestmark = pytest.mark.usefixtures("one_thread")


def made(message, **settings):
    config = DiscoverConfig(**settings)
    return run_method(lambda: find_or_create_run(config, "first", "palaestra discover"), config, message.append)


def test_the_method_selects_walk_or_agent(workplace):
    assert made([], seconds=5).unit == "flips"


def test_method_auto_reaches_the_target(workplace):
    agent = {"width": 16, "batch": 32, "warmup": 2, "updates": 1, "simulations": 1, "children": 4, "device": "cpu"}
    result = made([], method="auto", seconds=60, agent=agent)
    assert (result.rank, result.unit) == (7, "moves")


def test_for_large_formats_method_auto_runs_only_the_walk(workplace):
    message = []
    result = made(message, format="4x4x4", method="auto", seconds=1e-9, round_flips=10)
    assert result.unit == "flips"
    assert "too large for the agent" in message[0]


def test_method_flip_does_not_load_torch():
    code = "import sys, palaestra.apps.matmul.discover; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
