"""What becomes of a scheme at the end of a search: archived, told to the sinks, and timed where it is for numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from palaestra.apps.matmul.archive import Archive
from palaestra.apps.matmul.first_look import first_look

if TYPE_CHECKING:
    from palaestra.apps.matmul.archive import Provenance
    from palaestra.apps.matmul.verification import VerifiedFactorization
    from palaestra.loggers.fanout import Fanout
    from palaestra.runner.session import RunSession

ARTIFACT, KIND = "discovery", "algorithm"  # as W&B calls them


@dataclass(frozen=True)
class Kept:
    file: str = ""  # in the archive; empty when it is no better than the schoolbook's
    is_new: bool = False  # to this archive
    remark: str = ""  # of the first look at its speed


def keep(
    proved: VerifiedFactorization,
    provenance: Provenance,
    session: RunSession,
    sinks: Fanout,
    *,
    bench: bool,
    ends: float = inf,
) -> Kept:
    """`ends` (of time.monotonic): when the session should be over."""
    if proved.rank >= proved.format.schoolbook_rank:  # what everybody knows is no discovery
        return Kept()
    entry, is_new = Archive(session.directory.path.parent).add(proved, provenance, ends)
    session.journal.record("artifact.saved", file=str(entry.file), kind="discovery")
    sinks.files_made(ARTIFACT, KIND, [entry.file])
    remark = first_look(entry, session.directory, session.journal, sinks, ends) if bench else ""
    return Kept(str(entry.file), is_new, remark)
