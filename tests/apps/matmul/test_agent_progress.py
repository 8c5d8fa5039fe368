import json

import pytest

from palaestra.apps.matmul.agent_episode import Played
from palaestra.apps.matmul.agent_learner import RoundReport
from palaestra.apps.matmul.agent_progress import (
    absorb,
    begin_progress,
    decode_progress,
    encode_progress,
    shown_schemes,
)
from palaestra.apps.matmul.discover_config import DiscoverConfig
from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.masks import to_masks
from palaestra.core.errors import DamagedFile

SMALL = Format(2, 2, 2)
SCHOOL = to_masks(schoolbook(SMALL, Field.GF2))
AGENT = DiscoverConfig(method="agent")
AUTO = DiscoverConfig(method="auto", target=0, agent={"walk_flips": 20_000})


def report(scheme, round_=1):
    return RoundReport(round_, 1, len(scheme), 0.0, 0.0, (Played(1, len(scheme), 0, -float(len(scheme)), scheme),))


def test_it_begins_with_the_schoolbook_and_nobodys_discovery():
    progress = begin_progress(AGENT)
    assert (progress.best_rank, progress.found_by, progress.walk) == (8, "", None)


def test_a_better_scheme_replaces_the_pool_and_equal_ones_join_it_once(strassen_bits):
    masks = to_masks(strassen_bits)
    progress = absorb(begin_progress(AGENT), report(masks), AGENT)
    assert (progress.best_rank, progress.found_by) == (7, "agent")
    again = absorb(progress, report(list(reversed(masks))), AGENT)
    assert len(again.pool) == 1
    assert absorb(again, report(SCHOOL), AGENT).pool == again.pool


def test_who_was_shown_a_scheme_of_that_rank_has_reproduced_it(strassen_bits):
    masks = to_masks(strassen_bits)
    found = absorb(begin_progress(AGENT), report(masks), AGENT)
    assert not found.is_reproduced
    assert shown_schemes(found, ["2x2x2-gf2-r7-abc"], [7]).is_reproduced
    assert not shown_schemes(found, ["2x2x2-gf2-r8-abc"], [8]).is_reproduced


def test_a_walk_beside_the_agent_starts_from_its_proposal(strassen_bits):
    progress = absorb(begin_progress(AUTO), report(to_masks(strassen_bits)), AUTO)
    assert progress.walk.best_rank == 7
    assert progress.walk.walkers[0].starts == 1
    assert progress.found_by == "agent"
    assert progress.walk.flips == 20_000


def test_what_the_walk_finds_counts_as_found_by_flips():
    progress = begin_progress(AUTO)
    for round_ in range(1, 20):
        progress = absorb(progress, report(SCHOOL, round_), AUTO)
        if progress.best_rank == 7:
            break
    assert (progress.best_rank, progress.found_by) == (7, "flip")


def test_progress_is_kept_as_plain_data_and_comes_back(strassen_bits):
    progress = absorb(begin_progress(AUTO), report(to_masks(strassen_bits)), AUTO)
    data = json.loads(json.dumps(encode_progress(progress)))
    assert decode_progress(data, SMALL) == progress
    with pytest.raises(DamagedFile):
        decode_progress({**data, "pool": "["}, SMALL)
