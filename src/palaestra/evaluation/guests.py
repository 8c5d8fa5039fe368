"""Checkpoints whose policy is not of our making: the kind of run that saved them knows who can play them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from palaestra.core import plugins
from palaestra.core.errors import RefusedFile

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.checkpoints.reading import OpenedCheckpoint
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.crowd import Program, Troupe
    from palaestra.runs.directory import RunDirectory

GROUP = "external_policies"  # parts of apps: kind of run -> (opened checkpoint, run directory) -> Guest


class Guest(Protocol):
    def prepare(self, plan: EvaluationPlan) -> None:
        """Refuse what cannot be played, before anything is."""
        ...

    def troupe(self, count: int, videos: Path | None) -> Troupe:
        """Processes that play; `videos`: where films of the episodes go, when they are asked for."""
        ...

    def match_player(self) -> tuple[dict[str, Any], Program]:
        """A process that plays step by step, as `palaestra.runner.match_external` asks: its start and its program."""
        ...


def find_guest(opened: OpenedCheckpoint, directory: RunDirectory | None, *, is_own: bool) -> Guest | None:
    """None for a policy of ours. Playing a guest runs code that came with it, so it must be from here."""
    kind = str(opened.checkpoint.policy.get("kind", ""))
    if kind not in plugins.names(GROUP):
        return None
    if not is_own or directory is None:
        raise RefusedFile(
            f"{opened.checkpoint.path or 'This checkpoint'} was saved by a run of kind '{kind}'; playing it would run "
            "the code that came with it.",
            "If you trust it, copy the whole run into your own runs directory.",
        )
    guest: Guest = plugins.load(GROUP, kind)(opened, directory)
    return guest
