"""State of an agent's run: the best schemes so far, the parallel walk of method=auto, and checkpoints.

All processes of a group hold the same `Progress`: it is updated with the episodes of all, and the walk is
deterministic.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.agent.tensor_game import action_space, observation_space
from palaestra.apps.matmul.schemes.bit_masks import Masks, to_masks
from palaestra.apps.matmul.schemes.factorization import naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.search.flip_search import (
    Search,
    Walker,
    advance_search,
    decode_search,
    derive_seed,
    encode_search,
    start_search,
)
from palaestra.checkpoints.log import EPISODES_METRIC
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.weights import trainer_state_to_bytes
from palaestra.config.train import CheckpointConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import DamagedFile
from palaestra.core.spaces import EnvInterface, encode_interface
from palaestra.envs.spaces import space_spec

if TYPE_CHECKING:
    from palaestra.apps.matmul.agent.learner import AgentLearner, RoundReport
    from palaestra.apps.matmul.config import DiscoverConfig
    from palaestra.apps.matmul.schemes.factorization import Format
    from palaestra.runner.session import RunSession
    from palaestra.runs.directory import RunDirectory

MAX_POOL = 8  # schemes of the best rank, since not every scheme lifts
RESTART_MARGIN = 2  # a walker restarts from a scheme up to this much above the walk's best


@dataclass(frozen=True)
class Progress:
    pool: tuple[Masks, ...]  # of the lowest rank so far; initially the naive scheme
    found_by: str = ""  # "agent" or "flip"
    walk: Search | None = None  # with method=auto
    shown: tuple[str, ...] = ()  # names of the demonstrated schemes
    shown_rank: int = 0  # their lowest rank; 0: none

    @property
    def best_rank(self) -> int:
        return len(self.pool[0])

    @property
    def is_reproduced(self) -> bool:
        """The agent was shown a scheme of this rank or lower."""
        return self.found_by == "agent" and 0 < self.shown_rank <= self.best_rank


def initial_progress(config: DiscoverConfig) -> Progress:
    start = to_masks(naive_factorization(config.product, Field.GF2))
    walk = start_search(config.product, config.seed, config.walkers) if config.method == "auto" else None
    return Progress((start,), walk=walk)


def with_demonstrations(progress: Progress, names: list[str], ranks: list[int]) -> Progress:
    lowest = min([*ranks, *([progress.shown_rank] if progress.shown_rank else [])], default=0)
    return replace(progress, shown=tuple(dict.fromkeys([*progress.shown, *names])), shown_rank=lowest)


def update_progress(progress: Progress, report: RoundReport, config: DiscoverConfig) -> Progress:
    """Adds the episodes of a round, then runs the walk, which may restart from their best scheme."""
    for episode in report.episodes:
        progress = _with_scheme(progress, episode.scheme, "agent")
    if progress.walk is None:
        return progress
    settings = replace(config.search_settings, round_flips=max(config.agent.walk_flips, 1))
    best = min((episode.scheme for episode in report.episodes), key=len)
    walk = advance_search(_restart_walker(progress.walk, best, report.round), settings)
    return _with_scheme(replace(progress, walk=walk), walk.best, "flip")


def encode_progress(progress: Progress) -> dict[str, Any]:
    return {
        "pool": json.dumps(progress.pool),
        "found_by": progress.found_by,
        "walk": json.dumps(encode_search(progress.walk)) if progress.walk else "",
        "shown": list(progress.shown),
        "shown_rank": progress.shown_rank,
    }


def decode_progress(data: dict[str, Any], format_: Format) -> Progress:
    try:
        walk = decode_search(json.loads(data["walk"]), format_) if data["walk"] else None
        pool = tuple(json.loads(data["pool"]))
        return Progress(pool, str(data["found_by"]), walk, tuple(data["shown"]), int(data["shown_rank"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"The saved progress is damaged: {error!r}.", "Start a new run=NAME.") from error


def _with_scheme(progress: Progress, scheme: Masks, found_by: str) -> Progress:
    rows = [list(row) for row in scheme]
    if len(rows) < progress.best_rank:
        return replace(progress, pool=(rows,), found_by=found_by)
    if (
        len(rows) == progress.best_rank
        and len(progress.pool) < MAX_POOL
        and sorted(rows) not in map(sorted, progress.pool)
    ):
        return replace(progress, pool=(*progress.pool, rows))
    return progress


def _restart_walker(walk: Search, scheme: Masks, round_: int) -> Search:
    """Restarts the walkers in turn from the agent's scheme."""
    if len(scheme) > walk.best_rank + RESTART_MARGIN:
        return walk
    index = round_ % len(walk.walkers)
    old = walk.walkers[index]
    fresh = Walker(scheme, scheme, derive_seed(walk.seed, index, old.starts + 1), starts=old.starts + 1)
    kept = tuple(sorted([*walk.pool, old.best], key=len)[: max(len(walk.pool), 1)])
    walkers = tuple(fresh if place == index else one for place, one in enumerate(walk.walkers))
    return replace(walk, walkers=walkers, pool=kept)


RETENTION = CheckpointConfig(keep=3, keep_trainer_states=2)
GAME = "palaestra/TensorGame-v0"
NETWORK = "palaestra.apps.matmul.agent.network:AgentNetwork"


def save_agent(learner: AgentLearner, state: dict[str, Any], session: RunSession, seed: int) -> Checkpoint:
    """Saves a checkpoint durably. `state`: the trainer state besides the weights, as plain data."""
    started = time.monotonic()
    manager = CheckpointManager(session.directory, RETENTION)
    saved = manager.save(learner.network, _describe(learner, session, seed), state)
    session.journal.record(
        "checkpoint.saved",
        epoch=saved.epoch,
        step=saved.agent_step,
        file=saved.path.name if saved.path else "",
        bytes=sum(int(file["size"]) for file in saved.files.values()),
        seconds=round(time.monotonic() - started, 3),
    )
    return saved


def read_agent_checkpoint(directory: RunDirectory) -> bytes:
    """The newest valid checkpoint with its weights, to broadcast to all processes; empty if there is none."""
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
