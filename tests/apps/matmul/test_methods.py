import subprocess
import sys

import pytest

from palaestra.apps.matmul.discover_config import DiscoverConfig
from palaestra.apps.matmul.discovering import find_or_make
from palaestra.apps.matmul.methods import run_method

pytestmark = pytest.mark.usefixtures("one_thread")


def made(said, **settings):
    config = DiscoverConfig(**settings)
    return run_method(lambda: find_or_make(config, "first", "palaestra discover"), config, said.append)


def test_flips_walk_and_agents_play(workplace):
    assert made([], seconds=5).unit == "flips"


def test_both_side_by_side_reach_the_target(workplace):
    agent = {"width": 16, "batch": 32, "warmup": 2, "updates": 1, "simulations": 1, "children": 4, "device": "cpu"}
    outcome = made([], method="auto", seconds=60, agent=agent)
    assert (outcome.rank, outcome.unit) == (7, "moves")


def test_where_the_agent_cannot_play_the_walk_goes_alone_and_says_so(workplace):
    said = []
    outcome = made(said, format="4x4x4", method="auto", seconds=1e-9, round_flips=10)
    assert outcome.unit == "flips"
    assert "too large for the agent" in said[0]


def test_the_walk_loads_no_torch():
    code = "import sys, palaestra.apps.matmul.discovering; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
