"""Which checkpoint is meant: `latest`, `best`, an epoch, a path. Pure functions over what is there."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.checkpoints.durable import committed_epochs, read_checked, verify
from palaestra.checkpoints.files import epoch_of_data, epoch_of_sidecar, sidecar_name
from palaestra.core.errors import DamagedFile, NotFound, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from palaestra.core.checkpoint import Checkpoint

WORDS = ("latest", "best")
OWN_METRICS = ("score", "avg_reward")
SCORE_EPISODES = "score_episodes"  # in the sidecar's metrics: how many episodes the score is the mean of
_MEAN_OVER = re.compile(r"mean_over_([1-9][0-9]{0,8})_episodes", re.ASCII)


def parse_selector(selector: str | int | Path) -> str | int | Path:
    """One of `WORDS`, an epoch, or a path to a sidecar or to weights."""
    if isinstance(selector, bool):
        raise UsageError(f"A checkpoint cannot be selected by {selector!r}.", _help())
    if isinstance(selector, int):
        return _epoch(selector)
    if isinstance(selector, Path):
        return selector
    if selector in WORDS:
        return selector
    if selector.isascii() and selector.isdigit():
        return _epoch(int(selector[:19]))
    if selector.endswith((".yaml", ".safetensors")):
        return Path(selector)
    raise UsageError(f"No checkpoint is selected by '{selector}'.", did_you_mean(selector, WORDS) or _help())


def epoch_of_path(path: Path) -> int:
    """The epoch that a sidecar's or a data file's name speaks of."""
    epoch = epoch_of_sidecar(path.name)
    epoch = epoch_of_data(path.name) if epoch is None else epoch
    if epoch is None:
        raise UsageError(
            f"{path} is not named like a checkpoint of Palaestra (model_0010.yaml, model_0010.safetensors).",
            "For a file from elsewhere, try 'palaestra convert'.",
        )
    return epoch


def value_of(checkpoint: Checkpoint, metric: str) -> float | None:
    """None when this checkpoint was not judged by `metric`; NaN and infinities are no judgement either."""
    value = getattr(checkpoint, metric) if metric in OWN_METRICS else checkpoint.metrics.get(metric)
    return float(value) if value is not None and math.isfinite(value) else None


def rank_from_best(checkpoints: Iterable[Checkpoint], metric: str = "score") -> list[Checkpoint]:
    """Those with a value, the best first; of equals, the one that was trained longer.

    Scores are compared over the same number of episodes: the one over which most checkpoints were evaluated (of equally
    many checkpoints, the larger number). A lucky score over few episodes does not beat one over many. Checkpoints
    that were never evaluated over that number come last.
    """
    found = list(checkpoints)
    if metric != "score":
        return _ranked(found, lambda one: value_of(one, metric))
    episodes = comparable_episodes(found)
    comparable = _ranked(found, lambda one: scores_by_episodes(one).get(episodes))
    known = set(map(id, comparable))
    others = [one for one in found if id(one) not in known]
    return [*comparable, *_ranked(others, lambda one: value_of(one, metric))]


def comparable_episodes(checkpoints: Iterable[Checkpoint]) -> int:
    """The number of episodes over which most checkpoints were evaluated; 0 if unknown."""
    counts = Counter(episodes for one in checkpoints for episodes in scores_by_episodes(one))
    return max(counts, key=lambda episodes: (counts[episodes], episodes), default=0)


def scores_by_episodes(checkpoint: Checkpoint) -> dict[int, float]:
    """Every score that a checkpoint has, by the number of episodes that it is the mean of."""
    metrics = checkpoint.metrics
    found = {
        int(match[1]): float(value)
        for name, value in metrics.items()
        if (match := _MEAN_OVER.fullmatch(name)) and math.isfinite(value)
    }
    score = value_of(checkpoint, "score")
    return found if score is None else {**found, int(metrics.get(SCORE_EPISODES, 0)): score}


def mean_over(episodes: int) -> str:
    """The metric that keeps a score over so many episodes, also after `score` stands on more."""
    return f"mean_over_{episodes}_episodes"


def _ranked(checkpoints: Iterable[Checkpoint], value: Callable[[Checkpoint], float | None]) -> list[Checkpoint]:
    judged = [(found, one) for one in checkpoints if (found := value(one)) is not None]
    judged.sort(key=lambda pair: (pair[0], pair[1].agent_step, pair[1].epoch), reverse=True)
    return [one for _, one in judged]


def at_least(checkpoints: Iterable[Checkpoint], min_score: float) -> list[Checkpoint]:
    """Those judged at `min_score` or above, the best first; one that was never judged passes no threshold."""
    if math.isnan(min_score):
        raise UsageError("min_score=nan is no threshold.")
    ranked = _ranked(checkpoints, lambda one: value_of(one, "score"))
    return [one for one in ranked if one.score is not None and one.score >= min_score]


def check_metric(metric: str, checkpoints: Sequence[Checkpoint]) -> None:
    """A name that no checkpoint knows is a slip of the pen, not "nothing was judged"."""
    known = {*OWN_METRICS, *(name for one in checkpoints for name in one.metrics)}
    if metric not in known:
        hint = did_you_mean(metric, known) or f"Known: {', '.join(sorted(known))}."
        raise UsageError(f"No checkpoint has the metric '{metric}'.", hint)


def _epoch(epoch: int) -> int:
    if not 0 <= epoch < 10**18:
        raise UsageError(f"Invalid epoch: {epoch} (must be at least 0).", "Epochs count from 0.")
    return epoch


def _help() -> str:
    return "Use latest, best, an epoch such as 10, or a path to a .yaml or .safetensors file."


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RefusedCheckpoint:
    path: Path  # of the sidecar
    reason: str


@dataclass(frozen=True)
class Survey:
    checkpoints: tuple[Checkpoint, ...]  # from the oldest to the newest
    refused: tuple[RefusedCheckpoint, ...]


@dataclass(frozen=True)
class OpenedCheckpoint:
    checkpoint: Checkpoint
    parts: dict[str, bytes]  # file name -> verified bytes
    refused: tuple[RefusedCheckpoint, ...] = ()  # those that would have been chosen, were they not damaged


def survey(directory: Path) -> Survey:
    """Every checkpoint whose sidecar holds and whose files are there with their sizes; the bytes are not read."""
    checkpoints, refused = [], []
    for epoch in committed_epochs(directory):
        try:
            checkpoints.append(read_checked(directory, epoch))
        except NotFound:  # removed by retention since the directory was listed
            continue
        except DamagedFile as error:
            if (directory / sidecar_name(epoch)).exists():
                refused.append(_refuse(directory, epoch, error))
    return Survey(tuple(checkpoints), tuple(refused))


def open_checkpoint(directory: Path, selector: str | int | Path = "latest") -> OpenedCheckpoint:
    """`latest` and `best` fall back to the next one that verifies; an epoch or a path is that one or an error."""
    chosen = parse_selector(selector)
    if isinstance(chosen, str):
        opened = open_best(directory) if chosen == "best" else open_latest(directory)
        if opened is None:
            raise NotFound(f"No checkpoint in {directory}.", "Has the run saved one yet?")
        return opened
    where = directory if isinstance(chosen, int) else chosen.parent
    epoch = chosen if isinstance(chosen, int) else epoch_of_path(chosen)
    try:
        return OpenedCheckpoint(*verify(where, epoch))
    except NotFound as error:
        there = ", ".join(map(str, committed_epochs(where))) or "none"
        raise NotFound(error.message, f"Epochs there: {there}.") from error


def open_latest(directory: Path) -> OpenedCheckpoint | None:
    """None only when there is none; `DamagedFile` when there are some and not one holds."""
    return _first_that_verifies(directory, reversed(committed_epochs(directory)), ())


def open_best(directory: Path, metric: str = "score") -> OpenedCheckpoint | None:
    """None only when there is no checkpoint at all."""
    found = survey(directory)
    if not found.checkpoints and not found.refused:
        return None
    ranked = rank_from_best(found.checkpoints, metric)
    if found.checkpoints and not ranked:
        raise NotFound(
            f"No checkpoint in {directory} has a {metric} yet, so none is the best.",
            "Judge one with 'palaestra eval RUN', or select latest.",
        )
    return _first_that_verifies(directory, (one.epoch for one in ranked), found.refused)


def _first_that_verifies(
    directory: Path, epochs: Iterable[int], already_refused: tuple[RefusedCheckpoint, ...]
) -> OpenedCheckpoint | None:
    refused = list(already_refused)
    for epoch in epochs:
        try:
            return OpenedCheckpoint(*verify(directory, epoch), tuple(refused))
        except NotFound:  # removed by retention since the directory was listed
            continue
        except DamagedFile as error:
            if (directory / sidecar_name(epoch)).exists():
                refused.append(_refuse(directory, epoch, error))
    if refused:
        reasons = " ".join(one.reason for one in refused)
        raise DamagedFile(f"No checkpoint in {directory} can be used: {reasons}", "Restore one from a copy.")
    return None


def _refuse(directory: Path, epoch: int, error: DamagedFile) -> RefusedCheckpoint:
    logger.warning("Checkpoint %d is damaged and is not used: %s", epoch, error.message)
    return RefusedCheckpoint(directory / sidecar_name(epoch), error.message)
