"""Audits the saved data of a run after every fault: what was saved once must still be there."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import TYPE_CHECKING

from palaestra.checkpoints.durable import committed_epochs, verify
from palaestra.checkpoints.files import sidecar_name
from palaestra.core.errors import DamagedFile, NotFound, PalaestraError
from palaestra.evaluation.summary import read_batches
from palaestra.runs.metrics.reader import MetricsReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.episodes import EpisodeResult
    from palaestra.runs.directory import RunDirectory

UNREADABLE, LOST = "unreadable checkpoints", "saved work lost"
MISSING, MISCOUNTED, UNREAD = "metrics missing", "episodes doubled or missing", "files unreadable"
EVALUATIONS = "evaluations lost"
KINDS = (UNREADABLE, LOST, MISSING, MISCOUNTED, UNREAD, EVALUATIONS)
EVERY_ITERATION = "charts/learning_rate"  # has one point for each
SECOND_LOOK_SECONDS = 0.5  # retention may remove all that were listed, when saves come fast
WHOLE_AUDITS = 10  # one in so many reads all metrics again, which takes longer and longer
REMEMBERED = 50  # checkpoints; the newest of them must never be lost


class RunAudit:
    """Audits one run. Findings stay even if the files are rewritten later."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.found: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self._cut: set[int] = set()  # epochs that a fault damaged on purpose, until they are saved anew
        self._seen: set[int] = set()  # epochs that verified once
        self._settled = 0  # no rewind goes further back than this step
        self._batches = 0
        self._audits = 0

    def cut(self, epoch: int) -> None:
        self._cut.add(epoch)

    def audit(self, *, whole: bool = False) -> None:
        """Audit everything since the oldest checkpoint of the last audit; every tenth time, since the beginning."""
        self._audits += 1
        whole = whole or self._audits % WHOLE_AUDITS == 0
        begin = 0 if whole else self._settled
        self._settled = self._audit_checkpoints()
        self._audit_metrics(begin, whole=whole)
        self._audit_evaluations()

    def _note(self, kind: str, what: str) -> None:
        self.found[kind].add(f"{self.directory.id}: {what}")

    def _audit_checkpoints(self) -> int:
        """The step of the oldest checkpoint that verifies."""
        expected = max(self._seen - self._cut, default=-1)
        sound = self._verified()
        if max(sound, default=-1) < expected:
            time.sleep(SECOND_LOOK_SECONDS)
            sound = self._verified()
        newest = max(sound, default=-1)
        if newest < expected:
            self._note(LOST, f"epoch {expected} was saved, and the newest is {newest}")
        self._cut -= sound.keys()
        self._seen = set(sorted(self._seen | sound.keys())[-REMEMBERED:])
        return min((checkpoint.agent_step for checkpoint in sound.values()), default=0)

    def _verified(self) -> dict[int, Checkpoint]:
        """Checkpoints that verify, with all their bytes read."""
        folder, sound = self.directory.checkpoints, {}
        for epoch in committed_epochs(folder):
            try:
                sound[epoch], _ = verify(folder, epoch)
            except NotFound:  # removed by retention since the directory was listed
                continue
            except DamagedFile as error:
                if epoch not in self._cut and (folder / sidecar_name(epoch)).exists():
                    self._note(UNREADABLE, error.message)
        return sound

    def _audit_metrics(self, begin: int, *, whole: bool) -> None:
        try:
            with MetricsReader(self.directory.metrics_file) as reader, reader.consistent_snapshot():
                steps = [point.step for point in reader.series(EVERY_ITERATION, begin)]
                episodes = reader.episodes() if whole else []
        except PalaestraError as error:
            self._note(UNREAD, error.message)
            return
        for what in gaps(steps):
            self._note(MISSING, what)
        for what in miscounts(episodes, steps[-1] if steps else 0):
            self._note(MISCOUNTED, what)

    def _audit_evaluations(self) -> None:
        try:
            batches = read_batches(self.directory)
        except PalaestraError as error:
            self._note(UNREAD, error.message)
            return
        if len(batches) < self._batches or [batch.get("batch") for batch in batches] != [*range(1, len(batches) + 1)]:
            self._note(EVALUATIONS, f"of {self._batches} there are {len(batches)}")
        self._batches = len(batches)


def gaps(steps: Sequence[int]) -> list[str]:
    """Steps between which the distance differs from the usual one."""
    distances = [later - earlier for earlier, later in itertools.pairwise(steps)]
    usual = Counter(distances).most_common(1)
    return [
        f"between the steps {earlier} and {earlier + distance}"
        for earlier, distance in zip(steps, distances, strict=False)
        if distance != usual[0][0]
    ]


def miscounts(episodes: Sequence[EpisodeResult], step: int) -> list[str]:
    """Environments whose ended episodes do not add up to their steps.

    The steps of an environment are the lengths of its ended episodes plus the current one. A larger sum means that
    episodes were written twice; a sum smaller by more than the longest episode means that some are missing.
    """
    played: Counter[int] = Counter()
    for episode in episodes:
        played[episode.env_index] += episode.length
    longest = max((episode.length for episode in episodes), default=0)
    wrong = []
    for index, ended in sorted(played.items()):
        current = step // len(played) - ended
        if not 0 <= current <= longest:
            wrong.append(f"environment {index} ended episodes of {ended} of its {step // len(played)} steps")
    return wrong


def losses(audits: Iterable[RunAudit]) -> dict[str, int]:
    """Number of findings of each kind over all runs."""
    kept = list(audits)
    return {kind: sum(len(audit.found[kind]) for audit in kept) for kind in KINDS}
