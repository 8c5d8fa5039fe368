"""A session of the flip search as a run: rounds, metrics, checkpoints, and the best scheme verified and archived."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from palaestra.apps.matmul.schemes.archive import Archive, Provenance, readable_entries
from palaestra.apps.matmul.schemes.bit_masks import Masks, encode_claim
from palaestra.apps.matmul.schemes.building import Start, build_best_start
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.fingerprint import fingerprint
from palaestra.apps.matmul.schemes.known_ranks import compare_with_known
from palaestra.apps.matmul.schemes.rings import convert
from palaestra.apps.matmul.schemes.scheme_files import decode_scheme, encode_scheme
from palaestra.apps.matmul.schemes.transformations import permute_sides
from palaestra.apps.matmul.schemes.verification import VerifiedFactorization, verify
from palaestra.apps.matmul.search.ladder import (
    LadderState,
    advance_ladder,
    best_so_far,
    decode_ladder,
    encode_ladder,
    ladder_rungs,
    lift_to_field,
    start_ladder,
)
from palaestra.apps.matmul.search.lifting import LiftTimeout
from palaestra.apps.matmul.search.reduce_additions import find_fewest_additions
from palaestra.apps.matmul.selection import load_scheme
from palaestra.apps.matmul.session import (
    MIN_FINISH_SECONDS,
    SearchResult,
    archive_scheme,
    log_checkpoint,
    open_loggers,
    record_end,
)
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.clock import SystemClock
from palaestra.core.errors import RunFailed
from palaestra.core.metrics_logger import Sample
from palaestra.runner.logs import warnings_on_stderr
from palaestra.runner.session import RunSession
from palaestra.runner.signals import exit_code_of, stop_on_signals
from palaestra.runs.files import read_json, stamped, unstamped, write_json
from palaestra.runs.lock import run_lock
from palaestra.runs.logs import run_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palaestra.apps.matmul.config import DiscoverConfig
    from palaestra.loggers.fanout import LoggerFanout
    from palaestra.runner.signals import StopRequest
    from palaestra.runs.directory import RunDirectory

# 2: ladder of formats; 3: pools of the rungs; 4: cyclic-symmetric schemes; 5: names of keys; 6: rings of the walks
SCHEMA_VERSION = 6
SAVE_SECONDS = 10.0
SECONDS_PER_ROW_PAIR = 4e-4  # of a fingerprint; twice the time on an idle machine
BENCH_SECONDS = 6.0
MAX_FINISH_SHARE = 0.3  # of a session, for its end


def run_flip_search(directory: RunDirectory, config: DiscoverConfig, print_line: Callable[[str], None]) -> SearchResult:
    with run_lock(directory), run_log(directory), warnings_on_stderr(), stop_on_signals() as stop:
        session = RunSession(directory, 0, SystemClock())
        with record_end(session, stop):
            deadline = time.monotonic() + config.seconds
            search = _open_search(directory, config, session)
            with open_loggers(config.loggers, session, config.model_dump(mode="json")) as loggers:
                loggers.rewind(search.flips)
                search = _run_rounds(search, config, session, loggers, stop, print_line, deadline)
                return _finish(
                    search, config, session, loggers, stop, max(deadline, time.monotonic() + MIN_FINISH_SECONDS)
                )


def finishing_seconds(search: LadderState, config: DiscoverConfig) -> float:
    """Estimated time to verify, archive, reduce the additions of and benchmark the best scheme."""
    needed = SECONDS_PER_ROW_PAIR * search.best_rank**2  # the fingerprint compares all pairs of rows
    if search.field is not Field.GF2 and search.best_rank < search.format.naive_rank:
        needed += (config.polish if search.field is Field.ZT else 0.0) + (BENCH_SECONDS if config.bench else 0.0)
    return min(needed, MAX_FINISH_SHARE * config.seconds)


def checkpoint_file(directory: RunDirectory) -> Path:
    return directory.checkpoints / "search.json"


def _open_search(directory: RunDirectory, config: DiscoverConfig, session: RunSession) -> LadderState:
    """The state of the last session, or a new one."""
    file = checkpoint_file(directory)
    if not file.exists():
        session.journal.record("run.started", pid=os.getpid(), seed=config.seed, world_size=config.walkers)
        rungs = ladder_rungs(config.product) if config.start == "ladder" else (config.product,)
        start = _start(directory, config)
        return start_ladder(rungs, Field(config.field), config.seed, config.walkers, start, config.ring)
    search = decode_ladder(unstamped(read_json(file), SCHEMA_VERSION, file))
    session.journal.record(
        "run.resumed", pid=os.getpid(), step=search.flips, checkpoint=str(file.name), exact=True, reason=""
    )
    return search


def _start(directory: RunDirectory, config: DiscoverConfig) -> Masks | None:
    """The scheme to start from, of the archive or a file; stored with the run, since both change."""
    if config.start in ("ladder", "naive"):
        return None
    start = _archived_start(directory, config) if config.start == "archive" else _given_start(directory, config)
    content = {
        "rank": start.scheme.rank,
        "parents": list(start.parents),
        "scheme": encode_scheme(start.scheme.claim),
    }
    write_json(parents_file(directory), content)
    return encode_claim(convert(start.scheme.claim, config.ring))


def _archived_start(directory: RunDirectory, config: DiscoverConfig) -> Start:
    """The best scheme that can be built from archived ones."""
    entries = readable_entries(Archive(directory.path.parent))
    known = [(entry.fingerprint, entry.scheme) for entry in entries]
    return build_best_start(config.product, Field(config.field), known)


def _given_start(directory: RunDirectory, config: DiscoverConfig) -> Start:
    """The scheme that `start` names, over the field of the search."""
    proved, digest = load_scheme(config.start, directory.path.parent)
    claim = permute_sides(convert(proved.claim, Field(config.field)), config.product)
    return Start(verify(claim), (digest,))


def _read_start(directory: RunDirectory) -> VerifiedFactorization | None:
    """The start scheme over its own field; None if the search started from the naive scheme."""
    file = parents_file(directory)
    scheme = read_json(file).get("scheme") if file.exists() else None
    return None if scheme is None else verify(decode_scheme(scheme))


def parents_file(directory: RunDirectory) -> Path:
    return directory.artifacts / "parents.json"


def _parents(directory: RunDirectory) -> tuple[str, ...]:
    file = parents_file(directory)
    return tuple(map(str, read_json(file)["parents"])) if file.exists() else ()


def _run_rounds(
    search: LadderState,
    config: DiscoverConfig,
    session: RunSession,
    loggers: LoggerFanout,
    stop: StopRequest,
    print_line: Callable[[str], None],
    deadline: float,
) -> LadderState:
    """Runs rounds until the deadline, the target or a stop signal; at least one."""
    settings, first_flips, round_count = config.search_settings, search.flips, 0
    rate = 0.0
    started_at = saved_at = time.monotonic()
    with ThreadPoolExecutor(config.walkers) as pool:
        while not stop and search.best_rank > settings.target:
            limit = deadline - finishing_seconds(search, config)
            if round_count and time.monotonic() >= limit:
                break
            before = (search.ascents, search.rung, -search.search.best_rank)
            try:
                search = advance_ladder(
                    search, settings, config.rung_flips, pool if config.walkers > 1 else None, limit
                )
            except LiftTimeout:  # the next session repeats the round
                break
            round_count += 1
            rate = (search.flips - first_flips) / max(time.monotonic() - started_at, 1e-9)
            session.heartbeat(round_count, search.flips, rate, {"best_rank": search.best_rank})
            has_improved = (search.ascents, search.rung, -search.search.best_rank) > before
            if has_improved:
                rung = "" if search.is_at_top else f"{search.search.format} "
                elapsed = time.monotonic() - started_at
                print_line(f"{rung}rank {search.search.best_rank} after {search.flips:,} flips, {elapsed:.2f} s")
            if has_improved or time.monotonic() - saved_at >= SAVE_SECONDS:
                loggers.write(_sample(search, rate))
                _save(search, session, loggers)
                saved_at = time.monotonic()
        if round_count:
            loggers.write(_sample(search, rate))
            loggers.flush()
    _save(search, session, loggers)
    return search


def _sample(search: LadderState, rate: float) -> Sample:
    figures = {
        "discover/best_rank": float(search.best_rank),
        "discover/rung": float(search.rung),
        "discover/rung_rank": float(search.search.best_rank),
        "discover/pool_size": float(len(search.search.pool)),
        "discover/starts": float(sum(walker.starts for walker in search.search.walkers)),
    }
    return Sample(search.flips, figures, {"discover/flips_per_second": rate}, at=time.time())


def _save(search: LadderState, session: RunSession, loggers: LoggerFanout) -> None:
    file = checkpoint_file(session.directory)
    started = time.monotonic()
    write_json(file, stamped(encode_ladder(search), SCHEMA_VERSION))
    number = log_checkpoint(session.directory.checkpoints, search.flips, session.seconds, file.name)
    loggers.checkpoint_saved(_describe_checkpoint(search, session, number, file))
    session.journal.record(
        "checkpoint.saved",
        step=search.flips,
        file=file.name,
        bytes=file.stat().st_size,
        seconds=round(time.monotonic() - started, 3),
    )


def _describe_checkpoint(search: LadderState, session: RunSession, number: int, file: Path) -> Checkpoint:
    """Checkpoint metadata for loggers; a search has no policy."""
    return Checkpoint(
        epoch=number,
        agent_step=search.flips,
        total_time=session.seconds,
        run=session.record.id,
        run_name=session.record.name,
        saved_at=time.time(),
        policy={},
        env={},
        interface={},
        path=file,
    )


def _finish(
    search: LadderState,
    config: DiscoverConfig,
    session: RunSession,
    loggers: LoggerFanout,
    stop: StopRequest,
    deadline: float,
) -> SearchResult:
    directory = session.directory
    best = _verified_best(search, _read_start(directory), deadline)
    proved, used = _reduce_additions(best, Archive(directory.path.parent), config, stop, deadline)
    provenance = Provenance(
        run=directory.id,
        method="flip" if config.ring in (proved.field, Field.ZT) else "flip and lift",
        seed=config.seed,
        step=search.flips,
        wall_seconds=round(session.seconds, 3),
        cpu_seconds=round(time.process_time(), 3),
        found_at=time.time(),
        parents=(*_parents(directory), *used),
        machine=read_json(directory.environment_file),
    )
    known = compare_with_known(proved)
    archived = archive_scheme(proved, provenance, session, loggers, bench=config.bench and not stop, deadline=deadline)
    return SearchResult(
        run=directory.id,
        name=session.record.name,
        field=str(proved.field),
        rank=proved.rank,
        known=known.known,
        comparison=str(known.comparison),
        flips=search.flips,
        seconds=session.seconds,
        fingerprint=fingerprint(proved),
        is_new=archived.is_new,
        file=archived.file,
        exit_code=0 if stop.signal is None else exit_code_of(stop.signal),
        note=archived.note,
    )


def _reduce_additions(
    proved: VerifiedFactorization, archive: Archive, config: DiscoverConfig, stop: StopRequest, deadline: float
) -> tuple[VerifiedFactorization, tuple[str, ...]]:
    """Reduces the additions within the remaining time; also the fingerprints of the schemes used for it."""
    if not config.polish or stop or proved.field is not Field.ZT:
        return proved, ()
    known = [(entry.fingerprint, entry.scheme) for entry in readable_entries(archive)]
    is_found = proved.rank < proved.format.naive_rank
    left = deadline - time.monotonic() - (BENCH_SECONDS if config.bench else 0.0)
    return find_fewest_additions(proved, known, max(min(config.polish, left), 0.0) if is_found else 0.0, config.seed)


def _verified_best(search: LadderState, start: VerifiedFactorization | None, deadline: float) -> VerifiedFactorization:
    """The better of the search's best scheme and the start scheme, verified.

    Stored schemes were lifted when found, and the naive scheme is valid over every field. The start is verified as
    archived: lifted again from its bits it could get larger coefficients.
    """
    found = lift_to_field(search.field, best_so_far(search, deadline), search.format, ring=search.ring)
    schemes = [one for one in (start, found) if one is not None]
    if not schemes:
        raise RunFailed(f"No scheme of the search for {search.format} is valid over {search.field}.")
    return min(schemes, key=lambda one: one.rank)
