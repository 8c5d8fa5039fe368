"""One session of a search: rounds, figures, checkpoints, and at its end the best scheme, proved, in the archive."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.apps.matmul.schemes.archive import Archive, Provenance, sound_entries
from palaestra.apps.matmul.schemes.bit_masks import Masks, to_masks
from palaestra.apps.matmul.schemes.composition import best_start
from palaestra.apps.matmul.schemes.factorization import modulo_2
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.fingerprint import fingerprint
from palaestra.apps.matmul.schemes.known_ranks import compare
from palaestra.apps.matmul.schemes.scheme_files import decode_scheme, encode_scheme
from palaestra.apps.matmul.schemes.verification import VerifiedFactorization, verify
from palaestra.apps.matmul.search.ladder import (
    Climb,
    advance_climb,
    begin_climb,
    best_so_far,
    decode_climb,
    encode_climb,
    proved_over,
    rungs_to,
)
from palaestra.apps.matmul.search.lifting import OutOfTime
from palaestra.apps.matmul.search.reduce_additions import lightest
from palaestra.apps.matmul.session import ending_told, keep, log_checkpoint, open_sinks
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.clock import SystemClock
from palaestra.core.errors import RunFailed
from palaestra.core.sink import Sample
from palaestra.runner.logs import warnings_on_stderr
from palaestra.runner.session import RunSession
from palaestra.runner.signals import exit_code_of, stop_on_signals
from palaestra.runs.files import read_json, write_json
from palaestra.runs.lock import run_lock
from palaestra.runs.logs import run_log
from palaestra.runs.schema import stamped, unstamped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palaestra.apps.matmul.config import DiscoverConfig
    from palaestra.loggers.fanout import Fanout
    from palaestra.runner.signals import StopRequest
    from palaestra.runs.directory import RunDirectory

SCHEMA_VERSION = 4  # 2: a climb over several formats; 3: with shelves; 4: among schemes that can be turned
SAVE_SECONDS = 10.0
PER_PAIR = 4e-4  # seconds for each two rows of a scheme, twice what a quiet machine takes
BENCH_SECONDS = 6.0
LARGEST_SHARE = 0.3  # of a session that its end may take
LEAST_FINISHING = 2.0  # seconds, when the search itself was late


@dataclass(frozen=True)
class Outcome:
    run: str
    name: str
    field: str  # of the scheme that was kept
    rank: int
    known: int | None
    comparison: str
    flips: int
    seconds: float
    fingerprint: str
    is_new: bool  # to this archive
    file: str  # in the archive; empty when it is no better than the schoolbook's
    exit_code: int
    remark: str = ""
    unit: str = "flips"  # of what was counted as `flips`; an agent makes moves


def run_discovery(directory: RunDirectory, config: DiscoverConfig, say: Callable[[str], None]) -> Outcome:
    with run_lock(directory), run_log(directory), warnings_on_stderr(), stop_on_signals() as stop:
        session = RunSession(directory, 0, SystemClock())
        with ending_told(session, stop):
            ends = time.monotonic() + config.seconds
            search = _opened(directory, config, session)
            with open_sinks(config.sinks, session, config.model_dump(mode="json")) as sinks:
                sinks.rewind(search.flips)
                search = _searched(search, config, session, sinks, stop, say, ends)
                return _settled(search, config, session, sinks, stop, max(ends, time.monotonic() + LEAST_FINISHING))


def finishing_seconds(search: Climb, config: DiscoverConfig) -> float:
    """What proving, archiving, polishing and a first benchmark of the best scheme take at the end of a session."""
    needed = PER_PAIR * search.best_rank**2  # the fingerprint compares each two rows
    if search.field is not Field.GF2 and search.best_rank < search.format.schoolbook_rank:
        needed += (config.polish if search.field is Field.ZT else 0.0) + (BENCH_SECONDS if config.bench else 0.0)
    return min(needed, LARGEST_SHARE * config.seconds)


def checkpoint_file(directory: RunDirectory) -> Path:
    return directory.checkpoints / "search.json"


def _opened(directory: RunDirectory, config: DiscoverConfig, session: RunSession) -> Climb:
    """Where the last session stopped, step for step; else at the beginning."""
    file = checkpoint_file(directory)
    if not file.exists():
        session.journal.record("run.started", pid=os.getpid(), seed=config.seed, world_size=config.walkers)
        rungs = rungs_to(config.product) if config.start == "ladder" else (config.product,)
        return begin_climb(rungs, Field(config.field), config.seed, config.walkers, _start(directory, config))
    search = decode_climb(unstamped(read_json(file), SCHEMA_VERSION, file))
    session.journal.record(
        "run.resumed", pid=os.getpid(), step=search.flips, checkpoint=str(file.name), exact=True, reason=""
    )
    return search


def _start(directory: RunDirectory, config: DiscoverConfig) -> Masks | None:
    """What discoveries over this field make of it; kept beside the checkpoint, since the archive grows."""
    if config.start != "archive":
        return None
    entries = sound_entries(Archive(directory.path.parent))
    start = best_start(config.product, Field(config.field), [(entry.fingerprint, entry.scheme) for entry in entries])
    content = {
        "rank": start.scheme.rank,
        "parents": list(start.parents),
        "scheme": encode_scheme(start.scheme.claim),
    }
    write_json(parents_file(directory), content)
    return to_masks(modulo_2(start.scheme.claim))


def _started_with(directory: RunDirectory) -> VerifiedFactorization | None:
    """The scheme that the search began with, over its own field; None when it began with the schoolbook's."""
    file = parents_file(directory)
    scheme = read_json(file).get("scheme") if file.exists() else None
    return None if scheme is None else verify(decode_scheme(scheme))


def parents_file(directory: RunDirectory) -> Path:
    return directory.artifacts / "parents.json"


def _parents(directory: RunDirectory) -> tuple[str, ...]:
    file = parents_file(directory)
    return tuple(map(str, read_json(file)["parents"])) if file.exists() else ()


def _searched(
    search: Climb,
    config: DiscoverConfig,
    session: RunSession,
    sinks: Fanout,
    stop: StopRequest,
    say: Callable[[str], None],
    ends: float,
) -> Climb:
    """Rounds until the time is up, the target is reached, or somebody says stop; at least one."""
    rules, begun_with, rounds = config.rules, search.flips, 0
    rate = 0.0
    begun_at = saved_at = time.monotonic()
    with ThreadPoolExecutor(config.walkers) as pool:
        while not stop and search.best_rank > rules.target:
            limit = ends - finishing_seconds(search, config)
            if rounds and time.monotonic() >= limit:
                break
            before = (search.ascents, search.rung, -search.search.best_rank)
            try:
                search = advance_climb(search, rules, config.rung_flips, pool if config.walkers > 1 else None, limit)
            except OutOfTime:  # the round is made again by the next session
                break
            rounds += 1
            rate = (search.flips - begun_with) / max(time.monotonic() - begun_at, 1e-9)
            session.beat(rounds, search.flips, rate, {"best_rank": search.best_rank})
            has_fallen = (search.ascents, search.rung, -search.search.best_rank) > before
            if has_fallen:
                rung = "" if search.is_on_top else f"{search.search.format} "
                took = time.monotonic() - begun_at
                say(f"{rung}rank {search.search.best_rank} after {search.flips:,} flips, {took:.2f} s")
            if has_fallen or time.monotonic() - saved_at >= SAVE_SECONDS:
                sinks.write(_sample(search, rate))
                _save(search, session, sinks)
                saved_at = time.monotonic()
        if rounds:
            sinks.write(_sample(search, rate))
            sinks.flush()
    _save(search, session, sinks)
    return search


def _sample(search: Climb, rate: float) -> Sample:
    figures = {
        "discover/best_rank": float(search.best_rank),
        "discover/rung": float(search.rung),
        "discover/rung_rank": float(search.search.best_rank),
        "discover/pool_size": float(len(search.search.pool)),
        "discover/starts": float(sum(walker.starts for walker in search.search.walkers)),
    }
    return Sample(search.flips, figures, {"discover/flips_per_second": rate}, at=time.time())


def _save(search: Climb, session: RunSession, sinks: Fanout) -> None:
    file = checkpoint_file(session.directory)
    begun = time.monotonic()
    write_json(file, stamped(encode_climb(search), SCHEMA_VERSION))
    number = log_checkpoint(session.directory.checkpoints, search.flips, session.seconds, file.name)
    sinks.checkpoint_saved(_described(search, session, number, file))
    session.journal.record(
        "checkpoint.saved",
        step=search.flips,
        file=file.name,
        bytes=file.stat().st_size,
        seconds=round(time.monotonic() - begun, 3),
    )


def _described(search: Climb, session: RunSession, number: int, file: Path) -> Checkpoint:
    """For those who only want to know when and where; a search has no policy."""
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


def _settled(
    search: Climb, config: DiscoverConfig, session: RunSession, sinks: Fanout, stop: StopRequest, ends: float
) -> Outcome:
    directory = session.directory
    best = _proved(search, _started_with(directory), ends)
    proved, kin = _light(best, Archive(directory.path.parent), config, stop, ends)
    provenance = Provenance(
        run=directory.id,
        method="flip" if proved.field is Field.GF2 else "flip and lift",
        seed=config.seed,
        step=search.flips,
        wall_seconds=round(session.seconds, 3),
        cpu_seconds=round(time.process_time(), 3),
        found_at=time.time(),
        parents=(*_parents(directory), *kin),
        machine=read_json(directory.environment_file),
    )
    place = compare(proved)
    kept = keep(proved, provenance, session, sinks, bench=config.bench and not stop, ends=ends)
    return Outcome(
        run=directory.id,
        name=session.record.name,
        field=str(proved.field),
        rank=proved.rank,
        known=place.known,
        comparison=str(place.verdict),
        flips=search.flips,
        seconds=session.seconds,
        fingerprint=fingerprint(proved),
        is_new=kept.is_new,
        file=kept.file,
        exit_code=0 if stop.signal is None else exit_code_of(stop.signal),
        remark=kept.remark,
    )


def _light(
    proved: VerifiedFactorization, archive: Archive, config: DiscoverConfig, stop: StopRequest, ends: float
) -> tuple[VerifiedFactorization, tuple[str, ...]]:
    """With fewer additions, where there is time for it; and the discoveries that were used for it."""
    if not config.polish or stop or proved.field is not Field.ZT:
        return proved, ()
    known = [(entry.fingerprint, entry.scheme) for entry in sound_entries(archive)]
    is_found = proved.rank < proved.format.schoolbook_rank
    left = ends - time.monotonic() - (BENCH_SECONDS if config.bench else 0.0)
    return lightest(proved, known, max(min(config.polish, left), 0.0) if is_found else 0.0, config.seed)


def _proved(search: Climb, start: VerifiedFactorization | None, ends: float) -> VerifiedFactorization:
    """The best of what the search found and what it began with.

    What is kept was lifted when it was found, and the schoolbook's scheme holds everywhere. The start holds over the
    field as it was archived; lifted again from its bits, it may come out with larger coefficients.
    """
    found = proved_over(search.field, best_so_far(search, ends), search.format)
    schemes = [one for one in (start, found) if one is not None]
    if not schemes:
        raise RunFailed(f"No scheme for {search.format} that the search kept holds over {search.field}.")
    return min(schemes, key=lambda one: one.rank)
