"""A session of the agent as a run: rounds, metrics, checkpoints, and the best scheme verified and archived.

All processes of a group run the same code; only the leader has a `LeaderOutput`.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import torch

from palaestra.apps.matmul.agent.learner import AgentLearner
from palaestra.apps.matmul.agent.live_view import FactorView, factor_view
from palaestra.apps.matmul.agent.state import (
    Progress,
    decode_progress,
    encode_progress,
    initial_progress,
    read_agent_checkpoint,
    save_agent,
    update_progress,
    with_demonstrations,
)
from palaestra.apps.matmul.schemes.archive import Archive, Provenance, readable_entries
from palaestra.apps.matmul.schemes.bit_masks import from_masks, to_masks
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.fingerprint import fingerprint
from palaestra.apps.matmul.schemes.known_ranks import compare_with_known
from palaestra.apps.matmul.schemes.rings import can_convert, convert
from palaestra.apps.matmul.schemes.verification import VerifiedFactorization, verify
from palaestra.apps.matmul.search.lifting import lift
from palaestra.apps.matmul.session import MIN_FINISH_SECONDS, SearchResult, archive_scheme, open_loggers, record_end
from palaestra.checkpoints.weights import trainer_state_from_bytes
from palaestra.config.distributed import DistributedConfig
from palaestra.core.clock import SystemClock
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import NotFound
from palaestra.core.metrics_logger import Sample
from palaestra.runner.logs import warnings_on_stderr
from palaestra.runner.session import RunSession
from palaestra.runner.signals import exit_code_of, stop_on_signals
from palaestra.runs.files import read_json
from palaestra.runs.lock import run_lock
from palaestra.runs.logs import run_log
from palaestra.training.distributed.joining import open_group

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.apps.matmul.agent.episode import Episode
    from palaestra.apps.matmul.agent.learner import RoundReport
    from palaestra.apps.matmul.config import DiscoverConfig
    from palaestra.loggers.fanout import LoggerFanout
    from palaestra.runner.signals import StopRequest
    from palaestra.runs.directory import RunDirectory

THREADS = 1  # the network is too small to gain from more threads


def run_agent(
    open_run: Callable[[], RunDirectory], config: DiscoverConfig, print_line: Callable[[str], None]
) -> SearchResult | None:
    """Runs a session; None in processes that are not the leader, which alone calls `open_run`."""
    torch.set_num_threads(THREADS)
    with open_group(DistributedConfig()) as group, ExitStack() as stack:
        learner = AgentLearner(config.product, config.agent, config.seed, group)  # raises before anything is written
        directory = open_run() if group.is_leader else None
        stop = stack.enter_context(stop_on_signals())
        if directory is None:
            run_rounds(learner, _restore_or_start(learner, config, None), config, stop, None)
            return None
        stack.enter_context(run_lock(directory))
        stack.enter_context(run_log(directory))
        stack.enter_context(warnings_on_stderr())
        return _run_leader(RunSession(directory, 0, SystemClock()), learner, config, stop, print_line)


@dataclass(frozen=True)
class LeaderOutput:
    """Outputs of the leading process."""

    session: RunSession
    loggers: LoggerFanout
    view: FactorView
    print_line: Callable[[str], None]


def _run_leader(
    session: RunSession,
    learner: AgentLearner,
    config: DiscoverConfig,
    stop: StopRequest,
    print_line: Callable[[str], None],
) -> SearchResult:
    deadline = time.monotonic() + config.seconds
    with record_end(session, stop):
        progress = _restore_or_start(learner, config, session)
        with (
            open_loggers(config.loggers, session, config.model_dump(mode="json")) as loggers,
            factor_view(config.product, session) as view,
        ):
            loggers.rewind(learner.moves)
            progress = run_rounds(learner, progress, config, stop, LeaderOutput(session, loggers, view, print_line))
            exit_code = 0 if stop.signal is None else exit_code_of(stop.signal)
            deadline = max(deadline, time.monotonic() + MIN_FINISH_SECONDS)
            return finish_run(progress, config, session, loggers, learner.moves, exit_code, deadline)


def run_rounds(
    learner: AgentLearner, progress: Progress, config: DiscoverConfig, stop: StopRequest, output: LeaderOutput | None
) -> Progress:
    """Runs rounds until the time limit, the target or a stop signal; at least one."""
    started_at = round_started = time.monotonic()
    first = learner.rounds
    if progress.best_rank <= config.search_settings.target:
        return progress
    for report in learner.learn():
        before = progress.best_rank
        progress = update_progress(progress, report, config)
        progress = _show_walk_result(learner, progress)
        is_done = progress.best_rank <= config.search_settings.target
        elapsed, round_started = time.monotonic() - round_started, time.monotonic()
        # The next round would exceed the limit.
        is_late = output is not None and round_started + elapsed - started_at >= config.seconds
        stops, must_save = learner.group.max_over_ranks(
            int(is_done or is_late or bool(stop)), int(progress.best_rank < before)
        )
        if output is not None:
            rate = (report.round - first) / max(time.monotonic() - started_at, 1e-9)
            _report_round(output, report, progress, rate)
        if stops or must_save or report.round % config.agent.save_interval == 0:
            _save(learner, progress, config, output)
        if stops:
            break
    return progress


def _restore_or_start(learner: AgentLearner, config: DiscoverConfig, session: RunSession | None) -> Progress:
    """Restores the last session bit for bit, or starts a new one. The leader reads and broadcasts."""
    point = learner.group.broadcast_bytes(read_agent_checkpoint(session.directory) if session else b"")
    if point:
        state = trainer_state_from_bytes(point)
        learner.restore(state["weights"], state["agent"])
        if session is not None:
            session.journal.record(
                "run.resumed", pid=os.getpid(), epoch=learner.rounds, step=learner.moves, exact=True, reason=""
            )
        return decode_progress(state["run"], config.product)
    if session is not None:
        world = learner.group.world_size
        device = str(learner.network.device)
        session.journal.record("run.started", pid=os.getpid(), seed=config.seed, world_size=world, device=device)
    shown = learner.group.broadcast_bytes(_read_demonstrations(session, config) if session else b"")
    progress = initial_progress(config)
    if shown:
        names, learner.schemes = json.loads(shown)
        progress = with_demonstrations(progress, names, [len(scheme) for scheme in learner.schemes])
    return progress


def _read_demonstrations(session: RunSession, config: DiscoverConfig) -> bytes:
    """Archived schemes of this format as demonstrations, with their names; empty unless requested."""
    if config.agent.demonstrations != "schemes":
        return b""
    entries = [
        entry
        for entry in readable_entries(Archive(session.directory.path.parent))
        if entry.scheme.format == config.product and can_convert(entry.scheme.claim, Field.GF2)
    ]
    if not entries:
        raise NotFound(
            f"No archived scheme for {config.product} to demonstrate.",
            f"Find one first: palaestra discover {config.product} method=flip",
        )
    masks = [to_masks(convert(entry.scheme.claim, Field.GF2)) for entry in entries]
    return json.dumps([[entry.file.stem for entry in entries], masks]).encode()


def _show_walk_result(learner: AgentLearner, progress: Progress) -> Progress:
    """Shows the agent the walk's best scheme; results of that rank are then reproduced, not discovered."""
    walk = progress.walk
    if walk is None or walk.best_rank >= walk.format.naive_rank:
        return progress
    if learner.schemes and min(map(len, learner.schemes)) <= walk.best_rank:
        return progress
    learner.schemes = [[list(row) for row in walk.best]]
    return with_demonstrations(
        progress, [f"{walk.format}-gf2-r{walk.best_rank}, by flips of this run"], [walk.best_rank]
    )


def _report_round(output: LeaderOutput, report: RoundReport, progress: Progress, rate: float) -> None:
    """Logs metrics and episodes of a round."""
    first = (report.round - 1) * len(report.episodes) + 1
    for number, episode in enumerate(report.episodes, first):
        output.print_line(
            f"Episode {number} | Reward {episode.reward:g} | Residual {episode.residual} | Rank {len(episode.scheme)}"
            f" | best {progress.best_rank}"
        )
    newest = report.episodes[-1]
    figures = {
        "discover/best_rank": float(progress.best_rank),
        "discover/rank": float(len(newest.scheme)),
        "discover/residual": float(newest.residual),
        "discover/reward": newest.reward,
        "discover/value_loss": report.value_loss,
        "discover/policy_loss": report.policy_loss,
        "discover/updates": float(report.updates),
    }
    if progress.walk is not None:
        figures["discover/flips"] = float(progress.walk.flips)
    episodes = tuple(_row(episode, report.moves, index) for index, episode in enumerate(report.episodes))
    output.loggers.write(Sample(report.moves, figures, {"discover/episodes_per_second": rate}, episodes, time.time()))
    output.session.heartbeat(report.round, report.moves, rate, {"best_rank": progress.best_rank})
    output.view.show(newest.scheme, progress.pool[0], newest.reward, report.moves, first + len(report.episodes) - 1)


def _row(episode: Episode, step: int, index: int) -> EpisodeResult:
    extras = {"residual": float(episode.residual), "rank": float(len(episode.scheme))}
    return EpisodeResult(episode.seed, episode.reward, episode.moves, episode.is_solved, index, step, extras)


def _save(learner: AgentLearner, progress: Progress, config: DiscoverConfig, output: LeaderOutput | None) -> None:
    """Saves a checkpoint; every process contributes its state, the leader writes."""
    state = {"agent": learner.capture(), "run": encode_progress(progress)}
    if output is not None:
        output.loggers.flush()
        output.loggers.checkpoint_saved(save_agent(learner, state, output.session, config.seed))


REPRODUCED = "The agent was shown a scheme of this rank or lower: the result is reproduced, not discovered."
NOT_LIFTED = "No scheme lifts to that field; the archived one is valid modulo 2 only."


def finish_run(
    progress: Progress,
    config: DiscoverConfig,
    session: RunSession,
    loggers: LoggerFanout,
    moves: int,
    exit_code: int,
    deadline: float = inf,
) -> SearchResult:
    """Verifies and archives the best scheme, until `deadline` (time.monotonic)."""
    proved = verify_best(progress, config)
    method = progress.found_by if proved.field is Field.GF2 else f"{progress.found_by} and lift"
    provenance = Provenance(
        run=session.record.id,
        method=method,
        seed=config.seed,
        step=moves,
        wall_seconds=round(session.seconds, 3),
        cpu_seconds=round(time.process_time(), 3),
        found_at=time.time(),
        demonstrations=progress.shown,
        machine=read_json(session.directory.environment_file),
        origin="reproduced" if progress.is_reproduced else "discovered",
    )
    notes = [REPRODUCED] if progress.is_reproduced else []
    if proved.field is Field.GF2 and config.field != Field.GF2:
        notes.append(NOT_LIFTED)
    archived = archive_scheme(
        proved, provenance, session, loggers, bench=config.bench and not exit_code, deadline=deadline
    )
    notes.append(archived.note)
    known = compare_with_known(proved)
    return SearchResult(
        run=session.record.id,
        name=session.record.name,
        field=str(proved.field),
        rank=proved.rank,
        known=known.known,
        comparison=str(known.comparison),
        flips=moves,
        seconds=session.seconds,
        fingerprint=fingerprint(proved),
        is_new=archived.is_new,
        file=archived.file,
        exit_code=exit_code,
        note=" ".join(filter(None, notes)),
        unit="moves",
    )


def verify_best(progress: Progress, config: DiscoverConfig) -> VerifiedFactorization:
    """The best scheme over the requested field if one lifts to it, else modulo 2."""
    schemes = [verify(from_masks(masks, config.product)) for masks in progress.pool]
    if config.field == Field.GF2:
        return schemes[0]
    lifted = (lift(scheme) for scheme in schemes)
    valid = (one for one in lifted if one is not None and (config.field != Field.ZT or one.field is Field.ZT))
    return next(valid, schemes[0])
