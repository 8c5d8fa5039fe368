"""The agent's checkpoints: weights and trainer state in the house's own format, so that a run goes on bit for bit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.game_batch import action_space, observation_space
from palaestra.checkpoints.log import EPISODES_METRIC
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.weights import trainer_state_to_bytes
from palaestra.config.checkpoints import CheckpointConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.codec import encode_interface
from palaestra.core.spaces import EnvInterface
from palaestra.envs.spaces import space_spec

if TYPE_CHECKING:
    from palaestra.apps.matmul.agent_learner import AgentLearner
    from palaestra.runner.session import RunSession
    from palaestra.runs.directory import RunDirectory

RETENTION = CheckpointConfig(keep=3, keep_trainer_states=2)
GAME = "palaestra/TensorGame-v0"
NETWORK = "palaestra.apps.matmul.agent_network:AgentNetwork"


def save_learner(learner: AgentLearner, state: dict[str, Any], session: RunSession, seed: int) -> Checkpoint:
    """Durable when it returns. `state`: all that decides how the run goes on beside the weights, as plain data."""
    begun = time.monotonic()
    manager = CheckpointManager(session.directory, RETENTION)
    saved = manager.save(learner.network, _describe(learner, session, seed), state)
    session.journal.record(
        "checkpoint.saved",
        epoch=saved.epoch,
        step=saved.agent_step,
        file=saved.path.name if saved.path else "",
        bytes=sum(int(file["size"]) for file in saved.files.values()),
        seconds=round(time.monotonic() - begun, 3),
    )
    return saved


def read_point(directory: RunDirectory) -> bytes:
    """The newest checkpoint that verifies, with its weights, to be told to every process; empty when there is none."""
    point = CheckpointManager(directory, RETENTION).load_for_resume()
    return b"" if point is None else trainer_state_to_bytes({"weights": point.weights, **point.trainer_state})


def _describe(learner: AgentLearner, session: RunSession, seed: int) -> Checkpoint:
    settings = learner.settings
    interface = EnvInterface(space_spec(observation_space(settings)), space_spec(action_space(settings)))
    return Checkpoint(
        epoch=learner.rounds,
        agent_step=learner.moves,
        total_time=session.seconds,
        run=session.record.id,
        run_name=session.record.name,
        saved_at=time.time(),
        policy={"module": NETWORK, "settings": {"width": learner.config.width}},
        env={"id": GAME, "kwargs": settings.model_dump(mode="json")},
        interface=encode_interface(interface),
        seed=seed,
        metrics={EPISODES_METRIC: float(learner.rounds * learner.group.world_size)},
    )
