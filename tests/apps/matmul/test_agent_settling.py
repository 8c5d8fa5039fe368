import json
from dataclasses import replace
from pathlib import Path

import pytest

from palaestra.apps.matmul.agent_progress import begin_progress, shown_schemes
from palaestra.apps.matmul.agent_settling import REPRODUCED, prove, settle
from palaestra.apps.matmul.discover_config import DiscoverConfig
from palaestra.apps.matmul.discovering import find_or_make
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.masks import to_masks
from palaestra.core.clock import SystemClock
from palaestra.loggers.fanout import Fanout
from palaestra.runner.session import RunSession


@pytest.fixture
def found(strassen_bits):
    return replace(begin_progress(DiscoverConfig(method="agent")), pool=(to_masks(strassen_bits),), found_by="agent")


def nobody():
    """No sink listens."""
    return Fanout(lambda name, error: None)


def settled(progress, **settings):
    config = DiscoverConfig(method="agent", bench=False, **settings)
    session = RunSession(find_or_make(config, "first", "palaestra discover"), 0, SystemClock())
    return settle(progress, config, session, nobody(), 21, 0)


def provenance(outcome):
    return json.loads(Path(outcome.file).read_text())["provenance"]


def test_what_the_agent_found_by_itself_is_discovered(workplace, found):
    outcome = settled(found)
    assert (outcome.rank, outcome.flips, outcome.unit, outcome.remark) == (7, 21, "moves", "")
    kept = provenance(outcome)
    assert (kept["method"], kept["origin"], kept["demonstrations"]) == ("agent", "discovered", [])


def test_what_it_was_shown_is_reproduced_and_says_so(workplace, found):
    outcome = settled(shown_schemes(found, ["2x2x2-gf2-r7-abc"], [7]))
    assert outcome.remark == REPRODUCED
    assert (provenance(outcome)["origin"], provenance(outcome)["demonstrations"]) == (
        "reproduced",
        ["2x2x2-gf2-r7-abc"],
    )


def test_whole_numbers_are_lifted_from_what_was_found_modulo_2(workplace, found):
    outcome = settled(found, field="z")
    assert (outcome.field, outcome.rank, outcome.remark) == ("zt", 7, "")  # the strictest that holds
    assert provenance(outcome)["method"] == "agent and lift"


def test_the_schoolbooks_scheme_is_no_discovery(workplace):
    outcome = settled(begin_progress(DiscoverConfig(method="agent")))
    assert (outcome.rank, outcome.file) == (8, "")
    assert prove(begin_progress(DiscoverConfig()), DiscoverConfig()).field is Field.GF2


def test_what_is_for_numbers_is_timed_at_once_unless_told_not_to(workplace, found, monkeypatch):
    timed = []
    monkeypatch.setattr("palaestra.apps.matmul.keeping.first_look", lambda entry, *_: timed.append(entry) or "fast")
    config = DiscoverConfig(method="agent", field="zt")
    session = RunSession(find_or_make(config, "first", "palaestra discover"), 0, SystemClock())
    assert settle(found, config, session, nobody(), 21, 0).remark == "fast"
    assert [str(entry.file) for entry in timed] == [settle(found, config, session, nobody(), 21, 143).file]
