from __future__ import annotations

import json
from itertools import islice

import pytest
import torch

from palaestra.algorithms.group import ALONE
from palaestra.apps.matmul.agent.config import AgentConfig
from palaestra.apps.matmul.agent.episode import Episode
from palaestra.apps.matmul.agent.learner import AgentLearner, RoundReport
from palaestra.apps.matmul.agent.state import (
    decode_progress,
    encode_progress,
    initial_progress,
    read_agent_checkpoint,
    save_agent,
    update_progress,
    with_demonstrations,
)
from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.discover import find_or_create_run
from palaestra.apps.matmul.schemes.bit_masks import to_masks
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.checkpoints.log import read_log
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.weights import trainer_state_from_bytes
from palaestra.core.clock import SystemClock
from palaestra.core.errors import DamagedFile
from palaestra.runner.session import RunSession
from palaestra.runs.journal import read_journal

SMALL = Format(2, 2, 2)
SCHOOL = to_masks(naive_factorization(SMALL, Field.GF2))
AGENT = DiscoverConfig(method="agent")
AUTO = DiscoverConfig(method="auto", target=0, agent={"walk_flips": 20_000})


def report(scheme, round_=1):
    return RoundReport(round_, 1, len(scheme), 0.0, 0.0, (Episode(1, len(scheme), 0, -float(len(scheme)), scheme),))


def test_the_initial_pool_is_the_naive_scheme():
    progress = initial_progress(AGENT)
    assert (progress.best_rank, progress.found_by, progress.walk) == (8, "", None)


def test_a_better_scheme_replaces_the_pool_and_equal_ones_join_it_once(strassen_bits):
    masks = to_masks(strassen_bits)
    progress = update_progress(initial_progress(AGENT), report(masks), AGENT)
    assert (progress.best_rank, progress.found_by) == (7, "agent")
    again = update_progress(progress, report(list(reversed(masks))), AGENT)
    assert len(again.pool) == 1
    assert update_progress(again, report(SCHOOL), AGENT).pool == again.pool


def test_a_result_of_a_shown_rank_is_reproduced(strassen_bits):
    masks = to_masks(strassen_bits)
    found = update_progress(initial_progress(AGENT), report(masks), AGENT)
    assert not found.is_reproduced
    assert with_demonstrations(found, ["2x2x2-gf2-r7-abc"], [7]).is_reproduced
    assert not with_demonstrations(found, ["2x2x2-gf2-r8-abc"], [8]).is_reproduced


def test_the_parallel_walk_restarts_from_the_agents_scheme(strassen_bits):
    progress = update_progress(initial_progress(AUTO), report(to_masks(strassen_bits)), AUTO)
    assert progress.walk.best_rank == 7
    assert progress.walk.walkers[0].starts == 1
    assert progress.found_by == "agent"
    assert progress.walk.flips == 20_000


def test_results_of_the_walk_are_found_by_flips():
    progress = initial_progress(AUTO)
    for round_ in range(1, 20):
        progress = update_progress(progress, report(SCHOOL, round_), AUTO)
        if progress.best_rank == 7:
            break
    assert (progress.best_rank, progress.found_by) == (7, "flip")


def test_progress_round_trips_as_data(strassen_bits):
    progress = update_progress(initial_progress(AUTO), report(to_masks(strassen_bits)), AUTO)
    data = json.loads(json.dumps(encode_progress(progress)))
    assert decode_progress(data, SMALL) == progress
    with pytest.raises(DamagedFile):
        decode_progress({**data, "pool": "["}, SMALL)


TINY = AgentConfig(width=16, batch=32, warmup=1, updates=1, simulations=1, children=2, device="cpu")

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_saved_agent_is_a_regular_checkpoint_and_round_trips(workplace):
    directory = find_or_create_run(DiscoverConfig(method="agent"), "first", "palaestra discover")
    session = RunSession(directory, 0, SystemClock())
    learner = AgentLearner(Format(2, 2, 2), TINY, 1, ALONE)
    assert read_agent_checkpoint(directory) == b""
    list(islice(learner.learn(), 2))
    save_agent(learner, {"agent": learner.capture(), "run": {"note": "kept"}}, session, seed=1)
    (checkpoint,) = CheckpointManager(directory).list_all_checkpoints()
    assert (checkpoint.epoch, checkpoint.agent_step) == (2, learner.moves)
    assert checkpoint.env["id"] == "palaestra/TensorGame-v0"
    (entry,) = read_log(directory.checkpoints)
    assert (entry.episode, entry.agent_step) == (2, learner.moves)
    assert [one.event for one in read_journal(directory.journal_file)][-1] == "checkpoint.saved"
    state = trainer_state_from_bytes(read_agent_checkpoint(directory))
    assert state["run"] == {"note": "kept"}
    twin = AgentLearner(Format(2, 2, 2), TINY, 2, ALONE)
    twin.restore(state["weights"], state["agent"])
    for name, part in learner.network.state_dict().items():
        assert torch.equal(part, twin.network.state_dict()[name])
