"""One session of a search: rounds, figures, checkpoints, and at its end the best scheme, proved, in the archive."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.apps.matmul.archive import Archive, Provenance, sound_entries
from palaestra.apps.matmul.extension import best_start
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.fingerprint import fingerprint
from palaestra.apps.matmul.known_ranks import compare
from palaestra.apps.matmul.lifting import lift
from palaestra.apps.matmul.masks import Masks, from_masks, to_masks
from palaestra.apps.matmul.search import Search, advance, begin, decode_search, encode_search
from palaestra.apps.matmul.verification import VerifiedFactorization, verify
from palaestra.contracts.clock import SystemClock
from palaestra.contracts.errors import PalaestraError
from palaestra.contracts.sink import Sample
from palaestra.runs.files import read_json, write_json
from palaestra.runs.lock import run_lock
from palaestra.runs.logs import run_log
from palaestra.runs.schema import stamped, unstamped
from palaestra.sinks.store import MetricsSink
from palaestra.workers.session import RunSession
from palaestra.workers.signals import StopNow, exit_code_of, stop_on_signals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palaestra.apps.matmul.discover_config import DiscoverConfig
    from palaestra.runs.directory import RunDirectory
    from palaestra.workers.signals import StopRequest

SCHEMA_VERSION = 1
SAVE_SECONDS = 10.0


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
    with run_lock(directory), run_log(directory), stop_on_signals() as stop:
        session = RunSession(directory, 0, SystemClock())
        try:
            search = _opened(directory, config, session)
            with closing(MetricsSink(directory.metrics_file)) as metrics:
                metrics.rewind(search.flips)
                search = _searched(search, config, session, metrics, stop, say)
            outcome = _settled(directory, search, config, session, stop)
        except StopNow as error:
            session.cancelled(str(error), error.exit_code)
            raise KeyboardInterrupt from error
        except BaseException as error:
            session.failed(error, error.exit_code if isinstance(error, PalaestraError) else 1)
            raise
        if stop.signal is None:
            session.finished()
        else:
            session.cancelled(signal.Signals(stop.signal).name, outcome.exit_code)
        return outcome


def checkpoint_file(directory: RunDirectory) -> Path:
    return directory.checkpoints / "search.json"


def _opened(directory: RunDirectory, config: DiscoverConfig, session: RunSession) -> Search:
    """Where the last session stopped, step for step; else at the beginning."""
    file = checkpoint_file(directory)
    if not file.exists():
        session.journal.record("run.started", pid=os.getpid(), seed=config.seed, world_size=config.walkers)
        return begin(config.product, config.seed, config.walkers, _start(directory, config))
    search = decode_search(unstamped(read_json(file), SCHEMA_VERSION, file), config.product)
    session.journal.record(
        "run.resumed", pid=os.getpid(), step=search.flips, checkpoint=str(file.name), exact=True, reason=""
    )
    return search


def _start(directory: RunDirectory, config: DiscoverConfig) -> Masks | None:
    """What discoveries make of it; kept beside the checkpoint, since the archive grows. For z only of such over z."""
    if config.start != "archive":
        return None
    entries = sound_entries(Archive(directory.path.parent))
    usable = [entry for entry in entries if config.field == Field.GF2 or entry.scheme.field is not Field.GF2]
    start = best_start(config.product, [(entry.fingerprint, entry.scheme) for entry in usable])
    write_json(parents_file(directory), {"rank": start.scheme.rank, "parents": list(start.parents)})
    return to_masks(start.scheme.claim)


def parents_file(directory: RunDirectory) -> Path:
    return directory.artifacts / "parents.json"


def _parents(directory: RunDirectory) -> tuple[str, ...]:
    file = parents_file(directory)
    return tuple(map(str, read_json(file)["parents"])) if file.exists() else ()


def _searched(
    search: Search,
    config: DiscoverConfig,
    session: RunSession,
    metrics: MetricsSink,
    stop: StopRequest,
    say: Callable[[str], None],
) -> Search:
    """Rounds until the time is up, the target is reached, or somebody says stop; at least one."""
    rules, begun_with, rounds = config.rules, search.flips, 0
    rate = 0.0
    begun_at = saved_at = time.monotonic()
    with ThreadPoolExecutor(config.walkers) as pool:
        while not stop and search.best_rank > rules.target:
            if rounds and time.monotonic() - begun_at >= config.seconds:
                break
            before = search.best_rank
            search = advance(search, rules, pool if config.walkers > 1 else None)
            rounds += 1
            rate = (search.flips - begun_with) / max(time.monotonic() - begun_at, 1e-9)
            session.beat(rounds, search.flips, rate, {"best_rank": search.best_rank})
            has_fallen = search.best_rank < before
            if has_fallen:
                say(f"rank {search.best_rank} after {search.flips:,} flips, {time.monotonic() - begun_at:.2f} s")
            if has_fallen or time.monotonic() - saved_at >= SAVE_SECONDS:
                metrics.write(_sample(search, rate))
                _save(search, session)
                saved_at = time.monotonic()
        if rounds:
            metrics.write(_sample(search, rate))
            metrics.flush()
    _save(search, session)
    return search


def _sample(search: Search, rate: float) -> Sample:
    figures = {
        "discover/best_rank": float(search.best_rank),
        "discover/pool_size": float(len(search.pool)),
        "discover/starts": float(sum(walker.starts for walker in search.walkers)),
    }
    return Sample(search.flips, figures, {"discover/flips_per_second": rate}, at=time.time())


def _save(search: Search, session: RunSession) -> None:
    file = checkpoint_file(session.directory)
    begun = time.monotonic()
    write_json(file, stamped(encode_search(search), SCHEMA_VERSION))
    session.journal.record(
        "checkpoint.saved",
        step=search.flips,
        file=file.name,
        bytes=file.stat().st_size,
        seconds=round(time.monotonic() - begun, 3),
    )


def _settled(
    directory: RunDirectory, search: Search, config: DiscoverConfig, session: RunSession, stop: StopRequest
) -> Outcome:
    proved, remark = _proved(search, config)
    provenance = Provenance(
        run=directory.id,
        method="flip" if proved.field is Field.GF2 else "flip and lift",
        seed=config.seed,
        step=search.flips,
        wall_seconds=round(session.seconds, 3),
        cpu_seconds=round(time.process_time(), 3),
        found_at=time.time(),
        parents=_parents(directory),
        machine=read_json(directory.environment_file),
    )
    place = compare(proved)
    file, is_new = "", False
    if proved.rank < proved.format.schoolbook_rank:  # what everybody knows is no discovery
        entry, is_new = Archive(directory.path.parent).add(proved, provenance)
        file = str(entry.file)
        session.journal.record("artifact.saved", file=file, kind="discovery")
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
        is_new=is_new,
        file=file,
        exit_code=0 if stop.signal is None else exit_code_of(stop.signal),
        remark=remark,
    )


def _proved(search: Search, config: DiscoverConfig) -> tuple[VerifiedFactorization, str]:
    """The best scheme of the pool that holds over the field that was asked for."""
    if config.field == Field.GF2:
        return verify(from_masks(search.best, search.format)), ""
    tried = sorted([search.best, *search.pool], key=len)
    for masks in tried:
        lifted = lift(verify(from_masks(masks, search.format)))
        if lifted is not None:
            return lifted, ""
    best = verify(from_masks(search.best, search.format))
    return best, "No scheme of the pool could be lifted to whole numbers; what was kept holds modulo 2 only."
