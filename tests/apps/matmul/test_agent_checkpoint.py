from itertools import islice

import pytest
import torch

from palaestra.apps.matmul.agent_checkpoint import read_point, save_learner
from palaestra.apps.matmul.agent_config import AgentConfig
from palaestra.apps.matmul.agent_learner import AgentLearner
from palaestra.apps.matmul.discover_config import DiscoverConfig
from palaestra.apps.matmul.discovering import find_or_make
from palaestra.apps.matmul.format import Format
from palaestra.checkpoints.log import read_log
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.weights import trainer_state_from_bytes
from palaestra.core.clock import SystemClock
from palaestra.runner.session import RunSession
from palaestra.runs.journal import read_journal
from palaestra.training.group import ALONE

TINY = AgentConfig(width=16, batch=32, warmup=1, updates=1, simulations=1, children=2, device="cpu")

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_saved_agent_is_a_checkpoint_like_any_other_and_comes_back(workplace):
    directory = find_or_make(DiscoverConfig(method="agent"), "first", "palaestra discover")
    session = RunSession(directory, 0, SystemClock())
    learner = AgentLearner(Format(2, 2, 2), TINY, 1, ALONE)
    assert read_point(directory) == b""
    list(islice(learner.learn(), 2))
    save_learner(learner, {"agent": learner.capture(), "run": {"note": "kept"}}, session, seed=1)
    (checkpoint,) = CheckpointManager(directory).list_all_checkpoints()
    assert (checkpoint.epoch, checkpoint.agent_step) == (2, learner.moves)
    assert checkpoint.env["id"] == "palaestra/TensorGame-v0"
    (entry,) = read_log(directory.checkpoints)
    assert (entry.episode, entry.agent_step) == (2, learner.moves)
    assert [one.event for one in read_journal(directory.journal_file)][-1] == "checkpoint.saved"
    state = trainer_state_from_bytes(read_point(directory))
    assert state["run"] == {"note": "kept"}
    twin = AgentLearner(Format(2, 2, 2), TINY, 2, ALONE)
    twin.restore(state["weights"], state["agent"])
    for name, part in learner.network.state_dict().items():
        assert torch.equal(part, twin.network.state_dict()[name])
