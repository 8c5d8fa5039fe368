"""The end of an agent's session: its best scheme proved, lifted where whole numbers were asked for, and archived."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

from palaestra.apps.matmul.archive import Provenance
from palaestra.apps.matmul.discovery_run import Outcome
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.fingerprint import fingerprint
from palaestra.apps.matmul.keeping import keep
from palaestra.apps.matmul.known_ranks import compare
from palaestra.apps.matmul.lifting import lift
from palaestra.apps.matmul.masks import from_masks
from palaestra.apps.matmul.verification import VerifiedFactorization, verify
from palaestra.runs.files import read_json

if TYPE_CHECKING:
    from palaestra.apps.matmul.agent_progress import Progress
    from palaestra.apps.matmul.discover_config import DiscoverConfig
    from palaestra.loggers.fanout import Fanout
    from palaestra.runner.session import RunSession

REPRODUCED = "The agent was shown a scheme of this rank or better: this is reproduced, not discovered."
NOT_LIFTED = "None of the schemes could be lifted to that field; what was kept holds modulo 2 only."


def settle(
    progress: Progress,
    config: DiscoverConfig,
    session: RunSession,
    sinks: Fanout,
    moves: int,
    exit_code: int,
    ends: float = inf,
) -> Outcome:
    """`ends` (of time.monotonic): when the session should be over."""
    proved = prove(progress, config)
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
    remarks = [REPRODUCED] if progress.is_reproduced else []
    if proved.field is Field.GF2 and config.field != Field.GF2:
        remarks.append(NOT_LIFTED)
    kept = keep(proved, provenance, session, sinks, bench=config.bench and not exit_code, ends=ends)
    remarks.append(kept.remark)
    place = compare(proved)
    return Outcome(
        run=session.record.id,
        name=session.record.name,
        field=str(proved.field),
        rank=proved.rank,
        known=place.known,
        comparison=str(place.verdict),
        flips=moves,
        seconds=session.seconds,
        fingerprint=fingerprint(proved),
        is_new=kept.is_new,
        file=kept.file,
        exit_code=exit_code,
        remark=" ".join(filter(None, remarks)),
        unit="moves",
    )


def prove(progress: Progress, config: DiscoverConfig) -> VerifiedFactorization:
    """Over the field that was asked for, if one of the schemes can be lifted to it; else modulo 2."""
    schemes = [verify(from_masks(masks, config.product)) for masks in progress.pool]
    if config.field == Field.GF2:
        return schemes[0]
    lifted = (lift(scheme) for scheme in schemes)
    fitting = (one for one in lifted if one is not None and (config.field != Field.ZT or one.field is Field.ZT))
    return next(fitting, schemes[0])
